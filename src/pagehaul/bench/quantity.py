# SPDX-License-Identifier: GPL-2.0-only
"""What a picture shows: a quantity of rows by that of the rows they are compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pagehaul.bench.row import Row, find_baseline


class Figure(NamedTuple):
    """A ratio to the baseline, the least and the most of its repetitions, and what to write."""

    ratio: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Quantity:
    """A name that says which direction is better, and a row's figure by its baseline.

    of is None for a row of which the quantity is not known. curve tells whether it may be drawn
    as a line over sizes. base finds the row that a row is compared with, of all of its machine,
    and by says for people what that is. label names a row beside it, by default its column.
    """

    name: str
    of: Callable[[Row, Row], Figure | None]
    curve: bool = False
    base: Callable[[Row, Sequence[Row]], Row | None] = find_baseline
    by: str = "the unmodified kernel's figure"
    label: Callable[[Row, Row], str] | None = None


def _speed(row: Row, base: Row) -> Figure | None:
    del base
    if row.vs_vanilla is None:
        return None
    low, high = row.vs_vanilla_min or row.vs_vanilla, row.vs_vanilla_max or row.vs_vanilla
    return Figure(row.vs_vanilla, low, high, f"{row.vs_vanilla:.2f}x")


def beside(ours: float | None, base: float | None, unit: str = "", per: float = 1) -> Figure | None:
    """Return a figure of medians, whose ranges nobody has kept."""
    if ours is None or not base:
        return None
    ratio = ours / base
    told = f"{ours / per:,.1f} {unit}" if unit else f"{ratio:.2f}x"
    return Figure(ratio, ratio, ratio, told)


def in_us(of: Callable[[Row], float | None]) -> Callable[[Row, Row], Figure | None]:
    """Return the figure of a time in ns that rows may have."""
    return lambda row, base: beside(of(row), of(base), "us", 1000)


SPEED = Quantity("Speed (above 1 is faster)", _speed, curve=True)


def figure(row: Row, rows: Sequence[Row], quantity: Quantity) -> Figure | None:
    """Return the quantity of a row by its baseline's, None where either is not known."""
    baseline = quantity.base(row, rows)
    return None if baseline is None else quantity.of(row, baseline)


def label(row: Row, rows: Sequence[Row], quantity: Quantity) -> str | None:
    """Return the name of a row in the picture of a quantity; None for that of its column."""
    baseline = quantity.base(row, rows)
    if quantity.label is None or baseline is None:
        return None
    return quantity.label(row, baseline)
