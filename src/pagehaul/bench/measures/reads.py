# SPDX-License-Identifier: GPL-2.0-only
"""What a move leaves of the caches."""

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
from pagehaul.bench.table_cells import (
    case_cells,
    method_cell,
    throughput,
    times_cells,
    us,
    with_baseline,
)
from pagehaul.bench.view import View
from pagehaul.errors import PagehaulError


@dataclass(frozen=True)
class Reads:
    """What a move leaves of the caches: medians over `moves` repetitions, in ns.

    warm_ns is a pass over other memory that is in the caches, as far as it fits, own_ns the same
    after a move, and moved_ns the first pass over what has moved.
    """

    moves: int
    warm_ns: Annotated[float, Least(0)]
    own_ns: Annotated[float, Least(0)]
    moved_ns: Annotated[float, Least(0)]


def reads_of(moves_ns: Sequence[tuple[float, float, float]]) -> Reads | None:
    """Return the medians of warm, own and moved of all repetitions, None if there are none."""
    return Reads(len(moves_ns), *medians(moves_ns)) if moves_ns else None


def _check(reads: Reads, name: str) -> None:
    if min(reads.warm_ns, reads.own_ns, reads.moved_ns) < 0:
        raise PagehaulError(f"{name}: times must not be negative")


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row, _, reads, base in with_baseline(rows, MEASURE.of):
        lines.append(
            {
                **case_cells(row, rows),
                **method_cell(row),
                **times_cells(row, reads.moves),
                "speed": throughput(row, rows),
                "cached, us": f"{reads.warm_ns / 1000:,.1f}",
                "after a move, us": us(reads.own_ns, base.own_ns, 1),
                "what moved, us": us(reads.moved_ns, base.moved_ns, 1),
            }
        )
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's. Microseconds for reading other memory "
        "that is in the caches, reading it again after a move, and reading what has moved (and by "
        f"vanilla's); medians, lower is better. {captions.ran_on(part)}"
    )
    if captions.emulated(part):
        caption += f" {captions.CACHES_CAVEAT}"
    return table_of(captions.title(part), caption, lines)


OWN = Quantity(
    "Reading other memory after a move (below 1 is better)",
    in_us(lambda row: reads.own_ns if (reads := MEASURE.of(row)) else None),
)
MOVED = Quantity(
    "Reading what has moved (below 1 is better)",
    in_us(lambda row: reads.moved_ns if (reads := MEASURE.of(row)) else None),
)

# Cells ask for other memory, in KiB, that is brought into the caches before each move; it and what
# has moved are read after it.
MEASURE: Measure[Reads] = Measure(
    "reads",
    Reads,
    60,
    lambda observed: reads_of(observed.threes(("warm_ns", "own_ns", "read_ns"))),
    check=_check,
    words=lambda kb: [f"--cache={kb}"],
    view=View(_table, (OWN, MOVED)),
    costs=True,
)
