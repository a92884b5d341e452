# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark programs have seen: from their lines to rows."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pagehaul.bench.cell import BASE_PAGE, Cell
from pagehaul.bench.labels import shape_label
from pagehaul.bench.machines.places import Place
from pagehaul.bench.results import DETERMINISM, Faults, Row, hog_of, reads_of, remap_of, touch_of
from pagehaul.errors import PagehaulError

# The machines on whose only CPU each instruction is one of the move, or of the load.
COUNTING = ("icount", "fault-icount")

_Three = tuple[float, float, float]


@dataclass
class Samples:
    """What was measured of one cell, all boots and rounds together.

    A repetition of several moves gives one figure of each: pages and cpu_ns are sums, the longest
    touch is that of all, and other times are those of one of its moves. touches are the numbers of
    all touches by their time, in each turn.
    """

    gbps: list[float] = field(default_factory=list)
    ns: list[float] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)
    touch_ns: list[int] = field(default_factory=list)
    touches: list[dict[int, int]] = field(default_factory=list)
    hogs: list[tuple[float, float]] = field(default_factory=list)
    remaps_ns: list[_Three] = field(default_factory=list)
    reads_ns: list[_Three] = field(default_factory=list)
    user_ns: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


@dataclass
class Tally:
    """What was verified, and what is worth telling besides figures."""

    bytes_verified: int = 0
    mismatches: int = 0
    not_moved: int = 0
    boots: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell `text`, once."""
        if text not in self.notes:
            self.notes.append(text)


def collect(
    line: dict[str, Any], experiment: str, cell: Cell, samples: Samples, tally: Tally
) -> None:
    """Add one line of a benchmark program to the samples of its cell."""
    where = f"{experiment}, {shape_label(cell.shape.folio_kb, cell.shape.folios)}"
    if cell.condition:
        where += f", {cell.condition}"
    tally.bytes_verified += line["bytes_verified"]
    tally.mismatches += line["mismatches"]
    tally.not_moved += line["not_moved"]
    if line["error"] is not None:
        if not cell.optional:
            raise PagehaulError(f"{where}, {cell.method} on {cell.kernel}: {line['error']}")
        tally.note(f"{where}: left out: {line['error']}")
        return
    if line["not_moved"] and cell.kernel == "vanilla":
        raise PagehaulError(
            f"{where}: vanilla did not move {line['not_moved']} folios: {line['statuses']}"
        )
    if line["not_moved"]:
        tally.note(
            f"{where}, {cell.method}: {line['not_moved']} folios did not move: {line['statuses']}"
        )
    # A repetition of faultbench is one.
    moves = line.get("moves", [1] * len(line["ns"]))
    figures = (moves, line["ns"], line["cpu_ns"], line["moved_bytes"])
    for number, ns, cpu_ns, moved in zip(*figures, strict=True):
        if moved:
            samples.moves.append(number)
            samples.cpu_ns.append(cpu_ns)
            samples.ns.append(ns / number)
            samples.pages.append(moved // BASE_PAGE)
            samples.gbps.append(moved / ns)
    samples.user_ns += line.get("user_ns", [])
    samples.latency_ns += line.get("latency_ns", [])
    samples.touch_ns += line.get("touch_ns", [])
    if "touches" in line:
        samples.touches.append(dict(line["touches"]))
    for number, ns, hog_ns in zip(moves, line["ns"], line.get("hog_ns", []), strict=False):
        wanted = cell.hogs * ns
        samples.hogs.append((hog_ns / wanted, (wanted - hog_ns) / number))
    samples.remaps_ns += _threes(line, ("first_ns", "last_ns", "away_ns"))
    samples.reads_ns += _threes(line, ("warm_ns", "own_ns", "read_ns"))
    for name, value in line["counters"].items():
        samples.counters[name] = samples.counters.get(name, 0) + value


def _threes(line: dict[str, Any], names: tuple[str, str, str]) -> Iterator[_Three]:
    """Return three figures of each repetition, none where movebench did not ask."""
    return zip(*(line.get(name, []) for name in names), strict=True)


def row_of(experiment: str, cell: Cell, samples: Samples, place: Place) -> Row:
    """Return the row of a cell."""
    pages = cell.shape.bytes // BASE_PAGE
    counting = place.kind in COUNTING
    return Row(
        experiment=experiment,
        kernel=cell.kernel,
        method=cell.method,
        threads=cell.threads,
        folio_kb=cell.shape.folio_kb,
        folios=cell.shape.folios,
        bytes=cell.shape.bytes,
        gbps=tuple(samples.gbps),
        median_gbps=statistics.median(samples.gbps),
        vs_vanilla=None,
        vs_vanilla_min=None,
        vs_vanilla_max=None,
        # One nanosecond is one instruction in these machines, which do nothing besides.
        instructions_per_page=statistics.median(samples.ns) / pages if counting else None,
        counters=samples.counters,
        touch=touch_of(samples.touch_ns, samples.touches),
        remap=remap_of(samples.remaps_ns),
        reads=reads_of(samples.reads_ns),
        settings=dict(cell.settings),
        condition=cell.condition,
        hog=hog_of(samples.hogs),
        pages_moved=_pages_moved(samples) if cell.reason else None,
        channels=cell.channels,
        # Who moves memory for a reason of the kernel's own is not the caller.
        cpu_ns_per_page=None if cell.reason or cell.load else _cpu_ns_per_page(samples),
        faults=_faults(samples) if cell.load else None,
        cpus=place.cpus,
        model=place.model,
        clock=place.clock,
    )


def _pages_moved(samples: Samples) -> float:
    """Return base pages that one move moved, median."""
    by_move = [pages / moves for pages, moves in zip(samples.pages, samples.moves, strict=True)]
    return float(statistics.median(by_move))


def _faults(samples: Samples) -> Faults:
    return Faults(
        tuple(map(float, samples.ns)),
        tuple(map(float, samples.cpu_ns)),
        tuple(map(float, samples.user_ns)),
        tuple(map(float, samples.latency_ns)),
    )


def _cpu_ns_per_page(samples: Samples) -> float:
    helpers_ns = samples.counters.get("migrate_copy.helper_ns", 0)
    return (sum(samples.cpu_ns) + helpers_ns) / sum(samples.pages)


def check_determinism(rows: Iterable[Row], tally: Tally) -> None:
    """Note which counts of instructions differ from the others of their cell."""
    for row in rows:
        off = len(row.gbps) - row.within(DETERMINISM)
        if off:
            tally.note(
                f"{row.experiment}, {shape_label(*row.shape)}, {row.method} on {row.kernel}: "
                f"{off} of {len(row.gbps)} counts are more than {DETERMINISM:.1%} from the median"
            )
