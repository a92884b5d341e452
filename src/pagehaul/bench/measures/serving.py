# SPDX-License-Identifier: GPL-2.0-only
"""What clients of a server see while memory moves: throughput, and latency by time."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pagehaul.bench import captions
from pagehaul.bench.cell import BALANCING, BASE_PAGE
from pagehaul.bench.labels import Column, Table, column_label, column_of, table_of, without
from pagehaul.bench.means import at_most
from pagehaul.bench.measure import Measure, Observed
from pagehaul.bench.part import Part
from pagehaul.bench.plain import Least
from pagehaul.bench.quantity import SPEED, Figure, Quantity, beside
from pagehaul.bench.row import Row, find_baseline
from pagehaul.bench.table_cells import case_cells, throughput, times_cells
from pagehaul.bench.view import Course, View
from pagehaul.errors import PagehaulError

# Who moves only part of the memory, and who moves it by the method.
_PARTLY = ("demotion", "promotion", "compaction", BALANCING)
_WAYS = {"serial": "migratepages", "callers": "plain callers", "parallel": "pagehaul move"}

# Counters of pages, by how their names begin.
PROMOTED = "vmstat.pgpromote_success"
DEMOTED = "vmstat.pgdemote_"


def count(row: Row, prefix: str) -> float:
    """Return MB of the pages that all counters of a row with a prefix tell."""
    counts = [value for name, value in row.counters.items() if name.startswith(prefix)]
    return sum(counts) * BASE_PAGE / (1 << 20)


@dataclass(frozen=True)
class Phase:
    """What was seen before, during or after the scene, or in the window.

    requests had a part of their latency in it, in ns; per_second is how many were answered.
    """

    requests: int
    per_second: Annotated[float, Least(0)]
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True)
class Serving:
    """What clients saw in all scenes together.

    CPU times, in ns, are medians over the scenes: of the server, of the client, of who moved the
    memory, and of those that helped. waited_ns is how long the server and the client had work and
    no CPU during a scene, and waited_else_ns how long they would have by what was before it, in ns
    and of all their threads. The window begins with the scene and is as long for all who
    move memory, however long they take. left_bytes were on the old node before and after a scene.
    Each slot of the last one has its middle in us from the start of the scene on, and of requests
    that were due in it their number, and the latency of half of them, and the longest, in ns.
    """

    scenes: Annotated[int, Least(1)]
    server_ns: float
    client_ns: float
    mover_ns: float
    helper_ns: float
    waited_ns: float
    waited_else_ns: float
    left_bytes: float
    at_us: tuple[float, ...]
    slot_requests: tuple[float, ...]
    slot_p50_ns: tuple[float, ...]
    slot_max_ns: tuple[float, ...]
    before: Phase | None = None
    during: Phase | None = None
    after: Phase | None = None
    window: Phase | None = None


def _phase(
    waits: Sequence[Sequence[Sequence[int]]], longest: Sequence[int], done: float, ns: float
) -> Phase | None:
    counts: Counter[int] = Counter()
    for found in waits:
        counts.update(dict(map(tuple, found)))  # type: ignore[arg-type]
    if not counts or not ns:
        return None
    most = max(longest)
    p50, p99, p999 = (min(at_most(counts, part), most) for part in (50, 99, 99.9))
    return Phase(counts.total(), done * 1e9 / ns, p50, p99, p999, most)


def _collect(observed: Observed) -> Serving | None:
    lines = [line for line in observed.lines if line.get("timeline")]
    if not lines:
        return None
    scenes = sum(len(line["ns"]) for line in lines)
    spent = {"before": "before_ns", "during": "ns", "after": "after_ns", "window": "window_ns"}
    phases = {
        name: _phase(
            [line[f"waits_{name}"] for line in lines],
            [line["longest_ns"][number] for line in lines],
            sum(observed.all_of(f"done_{name}")),
            sum(observed.all_of(ns)),
        )
        for number, (name, ns) in enumerate(spent.items())
    }
    at, requests, p50, longest = (
        tuple(map(float, column)) for column in zip(*lines[-1]["timeline"], strict=True)
    )

    def median(name: str) -> float:
        return float(statistics.median(observed.all_of(name)))

    return Serving(
        scenes,
        median("server_ns"),
        median("client_ns"),
        median("cpu_ns"),
        observed.counters().get("migrate_copy.helper_ns", 0) / scenes,
        median("waited_ns"),
        sum(observed.all_of("waited_before_ns")) / sum(observed.all_of("before_ns")) * median("ns"),
        median("left_bytes"),
        at,
        requests,
        p50,
        longest,
        phases["before"],
        phases["during"],
        phases["after"],
        phases["window"],
    )


def _check(serving: Serving, name: str) -> None:
    slots = (serving.at_us, serving.slot_requests, serving.slot_p50_ns, serving.slot_max_ns)
    if len({len(each) for each in slots}) != 1:
        raise PagehaulError(f"{name}: needs one figure of each kind for each slot")


def _times(row: Row, base: Row | None) -> dict[str, str]:
    """Return the cells of latencies in the window, in us, and by those of the baseline.

    The longest is the longest of the scene, too; 99.9% during it stand behind that of the window.
    """
    ours = MEASURE.of(row)
    theirs = None if base is None else MEASURE.of(base)
    cells = {}
    heads = {"p50_ns": "50%, us", "p99_ns": "99%", "p999_ns": "99.9%", "max_ns": "longest"}
    for field, head in heads.items():
        ns = getattr(ours and ours.window, field, None)
        by = getattr(theirs and theirs.window, field, None)
        cells[head] = "" if ns is None else f"{ns / 1000:,.0f}"
        if ns is not None and by and base is not row:
            cells[head] += f" ({ns / by:.2f})"
    if ours is not None and ours.during is not None:
        cells["99.9% in scene"] = f"{ours.during.p999_ns / 1000:,.0f}"
    return cells


def _without_way(row: Row) -> Column:
    """Return the column of a row, without who moved, which has a cell of its own."""
    column = column_of(row)
    return without(column, [item for item in column.settings if item[0] == "by"])


def _left(row: Row, serving: Serving) -> dict[str, str]:
    """Return the cell of what stayed; none where only part of it was to move."""
    if row.settings.get("by") in _PARTLY:
        return {}
    return {"left, MB": f"{serving.left_bytes / (1 << 20):,.1f}"}


def _scene(row: Row, serving: Serving) -> dict[str, str]:
    """Return the scene's duration or, with balancing, how much was promoted and demoted."""
    if row.settings.get("by") != BALANCING:
        return {"scene, ms": f"{row.bytes / row.median_gbps / 1e6:,.1f}"}
    counted = {"promoted, MB": PROMOTED, "demoted, MB": DEMOTED}
    return {head: f"{count(row, prefix) / serving.scenes:,.0f}" for head, prefix in counted.items()}


def _rates(serving: Serving) -> str:
    phases = (serving.before, serving.during, serving.after, serving.window)
    return " / ".join(f"{each.per_second / 1000:,.1f}" if each else "-" for each in phases)


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row in rows:
        serving = MEASURE.of(row)
        if serving is None:
            continue
        cpu = (serving.mover_ns, serving.helper_ns, serving.server_ns, serving.client_ns)
        waited = (serving.waited_ns / 1e6, serving.waited_else_ns / 1e6)
        lines.append(
            {
                **case_cells(row, rows, row.condition),
                "method": column_label(_without_way(row)),
                "moved by": row.settings.get("by", _WAYS.get(row.method, row.method)),
                **times_cells(row, serving.scenes),
                **_scene(row, serving),
                "speed": throughput(row, rows),
                "1000 requests/s": _rates(serving),
                **_times(row, find_baseline(row, rows)),
                "CPU, ms": " + ".join(f"{ns / 1e6:,.0f}" for ns in cpu),
                "no CPU, ms": "{:,.1f} ({:,.1f})".format(*waited),
                **_left(row, serving),
            }
        )
    caption = (
        "A server and its client work while memory moves, which is the scene; its length is that "
        "of moving all of it at the same speed; with balancing it is as long for all, and speed "
        "that of the work. Speed: vanilla's in GB/s, the others' by vanilla's. Requests a second "
        "before the scene, during it, after it, and in the window, which begins with the scene and "
        "is as long for all. Latency in microseconds, of requests of the window (and by vanilla's; "
        "lower is better) and, for 99.9%, of those of the scene; in an open loop from when a "
        "request was due. CPU: time of who moved the memory "
        "or waited for that, of those that helped, of the server and of the client during the "
        "scene. no CPU: how long these two waited for one then (and would have without). left: "
        f"what was on the old node before and after. {captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


def _latency(row: Row, base: Row) -> Figure | None:
    ours, theirs = MEASURE.of(row), MEASURE.of(base)
    if ours is None or theirs is None or ours.window is None or theirs.window is None:
        return None
    return beside(ours.window.p999_ns, theirs.window.p999_ns, "us", 1000)


def _time(row: Row, base: Row) -> Figure | None:
    """Return what as many requests take, as all costs are better if they are lower."""
    ours, theirs = MEASURE.of(row), MEASURE.of(base)
    if ours is None or theirs is None or ours.window is None or theirs.window is None:
        return None
    return beside(theirs.window.per_second, ours.window.per_second)


LATENCY = Quantity("Latency in the window, 99.9% (below 1 is better)", _latency)
TIME = Quantity("Time for as many requests in it (below 1 is better)", _time)


def _course(row: Row) -> list[tuple[float, float]]:
    serving = MEASURE.of(row)
    if serving is None:
        return []
    slots = zip(serving.at_us, serving.slot_max_ns, strict=True)
    return [(at / 1e3, ns / 1e6) for at, ns in slots]


# Cells ask for a server that serves while memory moves.
MEASURE: Measure[Serving] = Measure(
    "serving",
    Serving,
    15,
    _collect,
    check=_check,
    view=View(
        _table,
        (SPEED, LATENCY, TIME),
        course=Course("Longest latency of each 2 ms", "ms", _course),
    ),
    costs=True,
)
