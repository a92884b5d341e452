# SPDX-License-Identifier: GPL-2.0-only
"""What hogs on all CPUs get, and lose, while memory moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pagehaul.bench import captions
from pagehaul.bench.labels import Table, shape_label, table_of
from pagehaul.bench.means import medians
from pagehaul.bench.measure import Measure, Observed, moves_of
from pagehaul.bench.measures import cpu_time
from pagehaul.bench.part import Part
from pagehaul.bench.plain import Least
from pagehaul.bench.quantity import SPEED, Figure, Quantity, beside
from pagehaul.bench.row import Row, find_baseline
from pagehaul.bench.table_cells import case_cells, method_cell, throughput, times_cells
from pagehaul.bench.view import View
from pagehaul.errors import PagehaulError

# Beside hogs a caller has a CPU for some slices of time, and then does not: enough of these.
_LEAST_US = 120_000


@dataclass(frozen=True)
class Hog:
    """What hogs on all CPUs got: medians over `moves` repetitions.

    share is the CPU time they used during the moves by that of all CPUs; lost_ns, in nanoseconds,
    is what they did not get of it during one of them.
    """

    moves: int
    share: Annotated[float, Least(0)]
    lost_ns: Annotated[float, Least(0)]


def hog_of(moves: Sequence[tuple[float, float]]) -> Hog | None:
    """Return the medians of share and loss of all repetitions, None if there are none."""
    if not moves:
        return None
    share, lost = medians(moves)
    # Reading the hogs' clocks takes a moment, which is not part of the move.
    return Hog(len(moves), share, max(0.0, lost))


def _collect(observed: Observed) -> Hog | None:
    found = []
    for line in observed.lines:
        times = zip(moves_of(line), line["ns"], line.get("hog_ns", []), strict=False)
        for moves, ns, hog_ns in times:
            wanted = observed.cell.asks[MEASURE.name] * ns
            found.append((hog_ns / wanted, (wanted - hog_ns) / moves))
    return hog_of(found)


def _check(hog: Hog, name: str) -> None:
    if hog.share < 0 or hog.lost_ns < 0:
        raise PagehaulError(f"{name}: share and lost_ns must not be negative")


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row in rows:
        baseline = find_baseline(row, rows)
        share = lost = ""
        hog, base = MEASURE.of(row), None if baseline is None else MEASURE.of(baseline)
        if hog is not None:
            share, lost = f"{hog.share:.0%}", f"{hog.lost_ns / 1e6:,.1f}"
            if base is not None:
                lost += f" ({hog.lost_ns / max(1.0, base.lost_ns):.2f})"
        lines.append(
            {
                **case_cells(row, rows, shape_label(*row.shape)),
                "machine": row.condition,
                **method_cell(row),
                **times_cells(row, len(row.gbps)),
                "speed": throughput(row, rows),
                "CPU, ns a page": cpu_time.cell(row, baseline),
                "hogs get": share,
                "hogs lose, ms a move": lost,
            }
        )
    caption = (
        "busy: beside a worker of stress-ng --cpu on every CPU. Speed: vanilla's in GB/s, the "
        "others' by vanilla's on the same machine, idle or busy. CPU: time of the caller, and of "
        "CPUs that help it, for a base page of 4 KB (and by vanilla's). hogs get: CPU time that "
        "the workers had during a move, of all CPUs' time. hogs lose: the rest of it (and by "
        f"vanilla's; lower is better). Medians. {captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


def _lost(row: Row, base: Row) -> Figure | None:
    ours, theirs = MEASURE.of(row), MEASURE.of(base)
    if ours is None or theirs is None:
        return None
    return beside(ours.lost_ns, max(1.0, theirs.lost_ns), "ms", 1e6)


LOST = Quantity("What hogs lose in a move (below 1 is better)", _lost)

VIEW = View(_table, (LOST, SPEED))

# Cells ask for workers of stress-ng that want all CPUs during the moves.
MEASURE = Measure(
    "hog",
    Hog,
    30,
    _collect,
    check=_check,
    words=lambda hogs: [f"--hogs={hogs}"],
    least_us=_LEAST_US,
    view=VIEW,
    costs=True,
)
