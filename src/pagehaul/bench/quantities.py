# SPDX-License-Identifier: GPL-2.0-only
"""What a picture shows: the quantity that the table beside it is about, by the baseline's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pagehaul.bench import fault_tables, judge_tables, validation
from pagehaul.bench.results import Row, find_baseline


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
    as a line over sizes.
    """

    name: str
    of: Callable[[Row, Row], Figure | None]
    curve: bool = False


def _speed(row: Row, base: Row) -> Figure | None:
    del base
    if row.vs_vanilla is None:
        return None
    low, high = row.vs_vanilla_min or row.vs_vanilla, row.vs_vanilla_max or row.vs_vanilla
    return Figure(row.vs_vanilla, low, high, f"{row.vs_vanilla:.2f}x")


def _beside(
    ours: float | None, base: float | None, unit: str = "", per: float = 1
) -> Figure | None:
    """Return a figure of medians, whose ranges nobody has kept."""
    if ours is None or not base:
        return None
    ratio = ours / base
    told = f"{ours / per:,.1f} {unit}" if unit else f"{ratio:.2f}x"
    return Figure(ratio, ratio, ratio, told)


def _instructions(row: Row, base: Row) -> Figure | None:
    return _beside(row.instructions_per_page, base.instructions_per_page)


def _wait(row: Row, base: Row) -> Figure | None:
    if row.touch is None or base.touch is None:
        return None
    if row.touch.all is None or base.touch.all is None:
        return _beside(row.touch.p50_ns, base.touch.p50_ns, "us", 1000)
    return _beside(row.touch.all.p99_ns, base.touch.all.p99_ns, "us", 1000)


def _lost(row: Row, base: Row) -> Figure | None:
    if row.hog is None or base.hog is None:
        return None
    return _beside(row.hog.lost_ns, max(1.0, base.hog.lost_ns), "ms", 1e6)


def _in_us(of: Callable[[Row], float | None]) -> Callable[[Row, Row], Figure | None]:
    """Return the figure of a time in ns that rows may have."""
    return lambda row, base: _beside(of(row), of(base), "us", 1000)


SPEED = Quantity("Speed (above 1 is faster)", _speed, curve=True)
INSTRUCTIONS = Quantity("Instructions for a page (below 1 is better)", _instructions, curve=True)
WAIT = Quantity("Wait of a reader, 99% (below 1 is better)", _wait)
LOST = Quantity("What hogs lose in a move (below 1 is better)", _lost)
CPU_TIME = Quantity(
    "CPU time for a page (below 1 is better)", _in_us(lambda row: row.cpu_ns_per_page)
)
FIRST = Quantity(
    "Until the first folio is back (below 1 is better)",
    _in_us(lambda row: row.remap.first_ns if row.remap else None),
)
LAST = Quantity(
    "Until the last folio is back (below 1 is better)",
    _in_us(lambda row: row.remap.last_ns if row.remap else None),
)
OWN = Quantity(
    "Reading other memory after a move (below 1 is better)",
    _in_us(lambda row: row.reads.own_ns if row.reads else None),
)
MOVED = Quantity(
    "Reading what has moved (below 1 is better)",
    _in_us(lambda row: row.reads.moved_ns if row.reads else None),
)

# Experiments whose tables are no ratios to the unmodified kernel.
APART = (*fault_tables.MAKERS, validation.NAME, judge_tables.NAME)

# What rows must have for others than their speed to be what a table is about.
_BY_FIGURE: tuple[tuple[Callable[[Row], object], tuple[Quantity, ...]], ...] = (
    (lambda row: row.instructions_per_page, (INSTRUCTIONS,)),
    (lambda row: row.touch, (WAIT,)),
    (lambda row: row.hog, (LOST, SPEED)),
    (lambda row: row.pages_moved, (SPEED,)),
    (lambda row: row.remap, (FIRST, LAST)),
    (lambda row: row.reads, (OWN, MOVED)),
)


def of_experiment(experiment: str, rows: Sequence[Row]) -> tuple[Quantity, ...]:
    """Return what the rows of an experiment are drawn by, nothing for those without a picture."""
    if experiment in APART:
        return ()
    if experiment == "cpu-freed":
        return (CPU_TIME,)
    for figure, quantities in _BY_FIGURE:
        if any(figure(row) is not None for row in rows):
            return quantities
    return (SPEED,)


def figure(row: Row, rows: Sequence[Row], quantity: Quantity) -> Figure | None:
    """Return the quantity of a row by its baseline's, None where either is not known."""
    baseline = find_baseline(row, rows)
    return None if baseline is None else quantity.of(row, baseline)
