# SPDX-License-Identifier: GPL-2.0-only
"""How long folios are out of the page tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pagehaul.bench import captions
from pagehaul.bench.labels import Table, table_of
from pagehaul.bench.means import medians
from pagehaul.bench.measure import Measure
from pagehaul.bench.part import Part
from pagehaul.bench.plain import Least
from pagehaul.bench.quantity import Quantity, in_us
from pagehaul.bench.table_cells import case_cells, method_cell, times_cells, us, with_baseline
from pagehaul.bench.view import View
from pagehaul.errors import PagehaulError


@dataclass(frozen=True)
class Remap:
    """How long folios are out of the page tables: medians over `moves` repetitions, in ns.

    first_ns and last_ns are from the start of the call until the first, and the last, of its folios
    is accessible again; away_ns is the longest time for which a folio is not.
    """

    moves: int
    first_ns: Annotated[float, Least(0)]
    last_ns: Annotated[float, Least(0)]
    away_ns: float


def remap_of(moves_ns: Sequence[tuple[float, float, float]]) -> Remap | None:
    """Return the medians of first, last and away of all repetitions, None if there are none."""
    return Remap(len(moves_ns), *medians(moves_ns)) if moves_ns else None


def _check(remap: Remap, name: str) -> None:
    if not 0 <= remap.first_ns <= remap.last_ns:
        raise PagehaulError(f"{name}.first_ns: {remap.first_ns} is not from 0 to last_ns")


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row, baseline, remap, base in with_baseline(rows, MEASURE.of):
        call_ns, base_ns = (each.bytes / each.median_gbps for each in (row, baseline))
        lines.append(
            {
                **case_cells(row, rows),
                **method_cell(row),
                **times_cells(row, remap.moves),
                "call, us": us(call_ns, base_ns),
                "first, us": us(remap.first_ns, base.first_ns),
                "last, us": us(remap.last_ns, base.last_ns),
                "longest away, us": us(remap.away_ns, base.away_ns),
            }
        )
    caption = (
        "Microseconds (and by vanilla's) of the whole call; from its start until the first, and "
        "the last, of its folios is accessible again; and the longest for which a folio is not. "
        "Medians; lower is better. Tracing the kernel for this takes some time itself, on both "
        "kernels. batch_pages: base pages in a batch; 512 where nothing is said. "
        f"{captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


FIRST = Quantity(
    "Until the first folio is back (below 1 is better)",
    in_us(lambda row: remap.first_ns if (remap := MEASURE.of(row)) else None),
)
LAST = Quantity(
    "Until the last folio is back (below 1 is better)",
    in_us(lambda row: remap.last_ns if (remap := MEASURE.of(row)) else None),
)

# The kernel is asked when each folio is accessible again, move by move.
MEASURE: Measure[Remap] = Measure(
    "remap",
    Remap,
    50,
    lambda observed: remap_of(observed.threes(("first_ns", "last_ns", "away_ns"))),
    check=_check,
    words=lambda _: ["--remaps"],
    least_us=0,
    view=View(_table, (FIRST, LAST)),
    costs=True,
)
