# SPDX-License-Identifier: GPL-2.0-only
"""How long a thread waits that uses the memory while it moves."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pagehaul.bench import captions
from pagehaul.bench.labels import Table, table_of
from pagehaul.bench.means import at_most
from pagehaul.bench.measure import Measure, Observed
from pagehaul.bench.part import Part
from pagehaul.bench.plain import Least
from pagehaul.bench.quantity import Figure, Quantity, beside
from pagehaul.bench.row import Row
from pagehaul.bench.table_cells import case_cells, method_cell, times_cells, us, with_baseline
from pagehaul.bench.view import View
from pagehaul.errors import PagehaulError

# Enough touches that 99% of them are told from the longest.
_LEAST_US = 100_000


@dataclass(frozen=True)
class Touches:
    """All touches of the memory, and what half of them took at most, and 99%, in ns.

    These two are of all touches of a turn, and medians over the turns. A touch that had to wait
    counts for those that would have come during the wait, too.
    """

    count: Annotated[int, Least(1)]
    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class Touch:
    """Longest touch of the memory in each of `moves` repetitions, in ns: of half, 99%, and all.

    all is None where only the longest ones were kept.
    """

    moves: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    all: Touches | None = None


def touch_of(times_ns: Sequence[int], turns: Sequence[Mapping[int, int]]) -> Touch | None:
    """Return what was seen of touches, None if there are none.

    times_ns are the longest of all repetitions, turns the numbers of all touches by their time, in
    each turn.
    """
    ordered = sorted(times_ns)
    if not ordered:
        return None
    last = len(ordered) - 1
    p50, p99, most = (ordered[last * part // 100] for part in (50, 99, 100))
    return Touch(len(ordered), p50, p99, most, _touches_of(turns))


def _touches_of(turns: Sequence[Mapping[int, int]]) -> Touches | None:
    shares = [tuple(at_most(counts, percent) for percent in (50, 99)) for counts in turns if counts]
    if not shares:
        return None
    total = sum(sum(counts.values()) for counts in turns)
    p50, p99 = (statistics.median_high(column) for column in zip(*shares, strict=True))
    return Touches(total, p50, p99)


def _collect(observed: Observed) -> Touch | None:
    turns = [dict(line["touches"]) for line in observed.lines if "touches" in line]
    return touch_of(observed.all_of("touch_ns"), turns)


def _check(touch: Touch, name: str) -> None:
    touches = touch.all
    if touches is None:
        return
    if not touches.count:
        raise PagehaulError(f"{name}.all.count: must be positive")
    if touches.p50_ns > touches.p99_ns:
        raise PagehaulError(f"{name}.all.p50_ns: {touches.p50_ns} is above p99_ns")


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row, baseline, touch, base in with_baseline(rows, MEASURE.of):
        line = {
            **case_cells(row, rows),
            **method_cell(row),
            **dict.fromkeys(("touches", "50%, us", "99%, us"), ""),
            "longest, us": f"{touch.max_ns / 1000:,.1f}",
            **times_cells(row, touch.moves),
            "longest each time, us": us(touch.p50_ns, base.p50_ns, 1),
            "speed": f"{row.median_gbps / baseline.median_gbps:.2f}x",
        }
        if touch.all is not None:
            line["touches"] = f"{touch.all.count:,}"
            line["50%, us"] = f"{touch.all.p50_ns / 1000:,.1f}"
            line["99%, us"] = f"{touch.all.p99_ns / 1000:,.1f}"
            if base.all is not None:
                line["99%, us"] = us(touch.all.p99_ns, base.all.p99_ns, 1)
        lines.append(line)
    caption = (
        "How long, in microseconds, a thread waited for a word of the memory while it moved: in "
        "50% of all touches of a turn, in 99% of them (medians over the turns, and by vanilla's), "
        "and at most; lower is better. A touch that waits counts for those, too, that were due "
        "during the wait. longest each time: while it moved there and back once, median (and by "
        "vanilla's). speed: of the moves beside it, by vanilla's. "
        f"{captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


def _wait(row: Row, base: Row) -> Figure | None:
    ours, theirs = MEASURE.of(row), MEASURE.of(base)
    if ours is None or theirs is None:
        return None
    if ours.all is None or theirs.all is None:
        return beside(ours.p50_ns, theirs.p50_ns, "us", 1000)
    return beside(ours.all.p99_ns, theirs.all.p99_ns, "us", 1000)


WAIT = Quantity("Wait of a reader, 99% (below 1 is better)", _wait)

# Cells ask for the microseconds from one touch of the memory to the next, by a thread of its own.
MEASURE = Measure(
    "touch",
    Touch,
    20,
    _collect,
    check=_check,
    words=lambda us: [f"--touch={us}"],
    least_us=_LEAST_US,
    view=View(_table, (WAIT,)),
    costs=True,
)
