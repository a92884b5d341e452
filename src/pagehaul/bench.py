# SPDX-License-Identifier: GPL-2.0-only
"""The `bench` verb: measures Pagehaul beside the unmodified kernel."""

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from pagehaul import build, cprogs, host, kernbench, report, ui
from pagehaul.errors import PagehaulError
from pagehaul.experiments import EXPERIMENTS, Cell, Experiment
from pagehaul.experiments.cell import BASE_PAGE
from pagehaul.machines import Guests, Host, Machine, Turn
from pagehaul.paths import REPO
from pagehaul.results import (
    DETERMINISM,
    Faults,
    Integrity,
    Results,
    Row,
    compare,
    dump,
    hog_of,
    reads_of,
    remap_of,
    touch_of,
)
from pagehaul.tables import shape_label


@dataclass(frozen=True)
class Effort:
    """How often things are measured.

    All kernels are booted together `boots` times. In a boot every cell is measured in `rounds`
    rounds, which go through all kernels and methods of a shape, so that they see the same noise. A
    cell moves about target_mb MiB a boot, in at least min_reps and at most max_reps repetitions,
    which go there and back where that can be, unless each move counts. timeout is for one boot, in
    seconds.
    """

    boots: int
    rounds: int
    target_mb: int
    min_reps: int
    max_reps: int
    timeout: float
    each_counts: bool = False

    def ways(self, cell: Cell) -> int:
        """Return how many moves make one repetition of a cell."""
        return 1 if self.each_counts else cell.ways


EFFORTS = {
    ("parallel", True): Effort(2, 3, 48, 3, 18, 900.0),
    ("parallel", False): Effort(4, 3, 1024, 3, 24, 7200.0),
    ("dies", True): Effort(1, 3, 64, 3, 6, 600.0),
    ("dies", False): Effort(2, 3, 1024, 3, 24, 3600.0),
    ("dma", True): Effort(1, 3, 64, 3, 6, 600.0),
    ("dma", False): Effort(2, 3, 1024, 3, 24, 7200.0),
    ("faults", True): Effort(1, 2, 1, 2, 2, 900.0),
    ("faults", False): Effort(2, 5, 1, 10, 10, 7200.0),
    ("fault-icount", True): Effort(1, 1, 1, 5, 5, 600.0),
    ("fault-icount", False): Effort(1, 1, 1, 10, 10, 3600.0),
    ("busy-icount", True): Effort(1, 1, 64, 5, 9, 900.0),
    ("busy-icount", False): Effort(1, 1, 256, 9, 25, 7200.0),
    ("icount", True): Effort(1, 1, 4, 5, 25, 600.0, each_counts=True),
    ("icount", False): Effort(2, 1, 4, 5, 25, 3600.0, each_counts=True),
}


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
    cpu_ns: list[int] = field(default_factory=list)
    touch_ns: list[int] = field(default_factory=list)
    touches: list[dict[int, int]] = field(default_factory=list)
    hogs: list[tuple[float, float]] = field(default_factory=list)
    remaps_ns: list[tuple[float, float, float]] = field(default_factory=list)
    reads_ns: list[tuple[float, float, float]] = field(default_factory=list)
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


Named = tuple[str, Cell]

_T = TypeVar("_T")

# The machines on whose only CPU each instruction is one of the move, or of the load.
_COUNTING = ("icount", "fault-icount")

# What a machine lacks that is not of a kind.
_WHY_NOT = {
    "icount": "instructions are counted in a guest only",
    "busy-icount": "instructions are counted in a guest only",
    "fault-icount": "instructions are counted in a guest only",
    "dma": "dcbm is not loaded",
}

# A move of so many bytes runs long enough to warm up by itself: only the first one of new memory,
# which finds the kernel's free lists as faulting left them, is not timed. Below, the first moves
# of a guest that has waited for its turn are slower, on either kernel.
_LARGE = 64 << 20

# A move of no more ends before it would be warm: the knobs of a method have just been set, which
# makes the kernel change its code, and an emulator translate that anew. Each cell warms up.
_SMALL = 2 << 20

# An engine that has just been switched on, as each cell does, is unknown to the kernel, which gives
# it little at first. What counts is how it is used once it is known, which takes so many bytes.
_LEARNING = 160 << 20

_MOST_BOOTS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cells")
    parser.add_argument(
        "--boots",
        type=_boots,
        metavar="N",
        help="measure everything in N boots of the kernels instead of 1 to 4: more samples, where "
        "the machine is restless",
    )
    parser.add_argument(
        "--experiment",
        action="append",
        choices=EXPERIMENTS,
        metavar="NAME",
        help=f"only this one; may be repeated: {', '.join(EXPERIMENTS)}; without it all are "
        f"measured, but for {', '.join(_on_request())}",
    )
    parser.add_argument("--json", type=Path, metavar="F", help="write the results to F")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with plots to F")
    parser.add_argument(
        "--host",
        action="store_true",
        help="measure the running kernel of this machine, which needs two nodes with memory",
    )


def _boots(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _MOST_BOOTS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {_MOST_BOOTS}")
    return int(text)


def _on_request() -> tuple[str, ...]:
    return tuple(name for name, experiment in EXPERIMENTS.items() if experiment.on_request)


def run(args: argparse.Namespace) -> int:
    """Measure, print and write; 1 when a page's content or node was wrong."""
    for path in (args.json, args.html):
        if path is not None and not path.absolute().parent.is_dir():
            raise PagehaulError(f"cannot write {path}: its directory does not exist")
    names = args.experiment or [name for name in EXPERIMENTS if name not in _on_request()]
    wanted = [experiment for name, experiment in EXPERIMENTS.items() if name in names]
    host.require(*(name for experiment in wanted for name in experiment.packages))
    machine: Machine
    if args.host:
        program = cprogs.build_static(REPO / "bench") / "movebench"
        machine = Host(program)
    else:
        more = [name for experiment in wanted for name in experiment.kernels]
        kernels = {
            name: build.build(name) for name in dict.fromkeys(("vanilla", "pagehaul", *more))
        }
        program = cprogs.build_static(REPO / "bench") / "movebench"
        machine = Guests(program, kernels)
        if any(experiment.name == "kernbench" for experiment in wanted):
            kernbench.write_commands(kernels["pagehaul"], args.quick)
    results = measure(
        wanted, machine, quick=args.quick, boots=args.boots, on_part=report.print_tables
    )
    report.print_summary(results)
    if args.json is not None:
        dump(results, args.json)
    if args.html is not None:
        report.write_html([results], args.html)
    return 1 if results.integrity.mismatches or results.integrity.not_moved else 0


def measure(
    wanted: Sequence[Experiment],
    machine: Machine,
    *,
    quick: bool,
    on_part: Callable[[Results, str], None],
    boots: int | None = None,
) -> Results:
    """Run the experiments on all kernels of `machine`, in so many boots or as EFFORTS says.

    on_part gets the results so far and the name of an experiment when that one is done.
    """
    tally = Tally()
    rows: list[Row] = []
    for experiment in wanted:
        if experiment.guest_only and not machine.disposable():
            tally.note(f"{experiment.name}: left out, it disturbs a machine, and needs a guest")
    wanted = [each for each in wanted if machine.disposable() or not each.guest_only]
    for kind in dict.fromkeys(experiment.machine for experiment in wanted):
        of_kind = [experiment for experiment in wanted if experiment.machine == kind]
        if kind not in machine.machines():
            names = ", ".join(experiment.name for experiment in of_kind)
            tally.note(f"{names}: left out, {_WHY_NOT[kind]}")
            continue
        effort = EFFORTS[kind, quick]
        if boots is not None:
            effort = replace(effort, boots=boots)
        rows += _measure_kind(of_kind, machine, kind, quick, effort, tally)
        results = _results(rows, machine, quick, tally)
        for experiment in of_kind:
            if any(row.experiment == experiment.name for row in rows):
                on_part(results, experiment.name)
    if not rows:
        raise PagehaulError("none of these experiments can be measured on this machine")
    return _results(rows, machine, quick, tally)


def _results(rows: Sequence[Row], machine: Machine, quick: bool, tally: Tally) -> Results:
    return Results(
        environment={
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": _commit(),
            "quick": quick,
            **machine.environment(),
            "boots": list(tally.boots),
            "notes": list(tally.notes),
        },
        rows=compare(rows),
        integrity=Integrity(tally.bytes_verified, tally.mismatches, tally.not_moved),
    )


def _commit() -> str | None:
    """Git's name of what is measured, "-dirty" when it was changed; None outside a clone."""
    command = ["git", "-C", str(REPO), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() or None


def _measure_kind(
    wanted: Sequence[Experiment],
    machine: Machine,
    kind: str,
    quick: bool,
    effort: Effort,
    tally: Tally,
) -> list[Row]:
    size = machine.size(kind, quick)
    # Experiments that look at the same cells in other ways have them measured once.
    measured_for = {experiment.cells: experiment for experiment in reversed(wanted)}
    cells: list[Named] = [
        (experiment.name, cell)
        for experiment in wanted
        if measured_for[experiment.cells] is experiment
        for cell in experiment.cells(size)
        if cell.kernel in machine.kernels()
    ]
    used = {cell.kernel for _, cell in cells}
    kernels = [kernel for kernel in machine.kernels() if kernel in used]
    samples: dict[int, Samples] = {index: Samples() for index in range(len(cells))}
    for number in range(effort.boots):
        order = turns(cells, kernels, effort, machine.nodes(), number)
        names = " and ".join(kernels)
        done = 0
        with ui.step(f"Measure {names}, {kind}, pass {number + 1} of {effort.boots}") as step:

            def on_line(step: ui.Step = step, total: int = len(order)) -> None:
                nonlocal done
                done += 1
                step.detail(f"{done} of {total}")

            found = machine.run(kind, quick, order, effort.timeout, on_line)
        tally.boots.append(f"{names} ({kind})")
        if len(found) != len(order):
            raise PagehaulError(f"movebench measured {len(found)} of {len(order)} cells")
        for _, line in found:
            index = int(line["label"])
            name, cell = cells[index]
            _collect(line, name, cell, effort.ways(cell), samples[index], tally)
    measured = [(cells[index], samples[index]) for index in samples if samples[index].gbps]
    rows = [_row(name, cell, found, kind) for (name, cell), found in measured]
    if kind in _COUNTING:
        _check_determinism(rows, tally)
    return [
        replace(row, experiment=experiment.name)
        for experiment in wanted
        for row in rows
        if row.experiment == measured_for[experiment.cells].name
    ]


def turns(
    cells: Sequence[Named],
    kernels: Sequence[str],
    effort: Effort,
    nodes: tuple[int, int],
    boot: int,
) -> list[Turn]:
    """Return the turns of one boot: shape after shape, in rounds through the kernels and methods.

    The kernels come in one order and in the other by turns, A B, B A, A B: a drift of the host
    that goes on at one pace then touches both alike.
    """
    order = []
    numbered = list(enumerate(cells))
    groups = groupby(numbered, key=lambda entry: (entry[1][0], entry[1][1].shape))
    for members in [list(group) for _, group in groups]:
        for number in range(effort.rounds):
            forward = (number + boot) % 2 == 0
            for kernel in kernels if forward else reversed(kernels):
                mine = [(index, cell) for index, (_, cell) in members if cell.kernel == kernel]
                for place, (index, cell) in enumerate(mine):
                    moves = -(-_reps(cell, effort) // effort.rounds) * effort.ways(cell)
                    warmups = _warmups(cell, number, place)
                    order.append(Turn(kernel, _plan_line(index, cell, moves, warmups, nodes)))
    return order


def _warmups(cell: Cell, number: int, place: int) -> int:
    """How many moves of a cell are not timed: in which round, and where in its turn."""
    if cell.method == "hybrid":
        return -(-_LEARNING // cell.shape.bytes)
    if cell.load is None and cell.shape.bytes <= _SMALL:
        return 1
    if cell.shape.bytes < _LARGE:
        return int(number == 0 or place == 0)
    return int(number == 0 and place == 0)


def _reps(cell: Cell, effort: Effort) -> int:
    return min(effort.max_reps, max(effort.min_reps, (effort.target_mb << 20) // cell.shape.bytes))


def _plan_line(index: int, cell: Cell, reps: int, warmups: int, nodes: tuple[int, int]) -> str:
    if cell.load is not None:
        words = [f"--label={index}", f"--reps={reps}", f"--warmups={warmups}"]
        words += [f"--threads={cell.threads}", f"--mb={max(1, cell.shape.bytes >> 20)}"]
        return " ".join([*words, *cell.load.words(), f"--node={nodes[1]}"])
    words = [f"--label={index}", f"--folio-kb={cell.shape.folio_kb}"]
    words += [f"--folios={cell.shape.folios}", f"--reps={reps}", f"--warmups={warmups}"]
    first, second = cell.nodes or nodes
    words += [f"--callers={cell.callers}", f"--from={first}", f"--to={second}"]
    if cell.shape.hugetlb:
        words.append("--hugetlb")
    if cell.touch_us:
        words.append(f"--touch={cell.touch_us}")
    if cell.reason:
        words.append(f"--reason={cell.reason}")
    if cell.hogs:
        words.append(f"--hogs={cell.hogs}")
    if cell.remaps:
        words.append("--remaps")
    if cell.cache_kb:
        words.append(f"--cache={cell.cache_kb}")
    words += [f"--knob={name}={value}" for name, value in cell.knobs.items()]
    return " ".join(words)


def _repetitions(moves: Iterable[_T], ways: int) -> Iterator[tuple[_T, ...]]:
    """Put what was seen of moves together by repetitions."""
    return zip(*[iter(moves)] * ways, strict=True)


def _means(
    line: dict[str, Any], names: tuple[str, str, str], ways: int
) -> Iterator[tuple[float, float, float]]:
    """Return of each repetition the means over its moves, none where movebench did not ask."""
    moves = zip(*(line.get(name, []) for name in names), strict=True)
    for repetition in _repetitions(moves, ways):
        first, second, third = (sum(times) / ways for times in zip(*repetition, strict=True))
        yield first, second, third


def _collect(
    line: dict[str, Any], experiment: str, cell: Cell, ways: int, samples: Samples, tally: Tally
) -> None:
    """Add one line of movebench to the samples of its cell, `ways` moves to each."""
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
    moves = zip(line["ns"], line["cpu_ns"], line["moved_bytes"], strict=True)
    for repetition in _repetitions(moves, ways):
        ns, cpu_ns, moved = (sum(figures) for figures in zip(*repetition, strict=True))
        if moved:
            samples.cpu_ns.append(cpu_ns)
            samples.ns.append(ns / ways)
            samples.pages.append(moved // BASE_PAGE)
            samples.gbps.append(moved / ns)
    samples.user_ns += line.get("user_ns", [])
    samples.latency_ns += line.get("latency_ns", [])
    samples.touch_ns += map(max, _repetitions(line.get("touch_ns", []), ways))
    if "touches" in line:
        samples.touches.append(dict(line["touches"]))
    hogs = zip(line["ns"], line.get("hog_ns", []), strict=False)
    for beside in _repetitions(hogs, ways):
        ns, hog_ns = (sum(figures) for figures in zip(*beside, strict=True))
        share = hog_ns / (cell.hogs * ns)
        samples.hogs.append((share, (cell.hogs * ns - hog_ns) / ways))
    samples.remaps_ns += _means(line, ("first_ns", "last_ns", "away_ns"), ways)
    samples.reads_ns += _means(line, ("warm_ns", "own_ns", "read_ns"), ways)
    for name, value in line["counters"].items():
        samples.counters[name] = samples.counters.get(name, 0) + value


def _row(experiment: str, cell: Cell, samples: Samples, kind: str) -> Row:
    pages = cell.shape.bytes // BASE_PAGE
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
        instructions_per_page=statistics.median(samples.ns) / pages if kind in _COUNTING else None,
        counters=samples.counters,
        touch=touch_of(samples.touch_ns, samples.touches),
        remap=remap_of(samples.remaps_ns),
        reads=reads_of(samples.reads_ns),
        settings=dict(cell.settings),
        condition=cell.condition,
        hog=hog_of(samples.hogs),
        pages_moved=float(statistics.median(samples.pages)) if cell.reason else None,
        channels=cell.channels,
        # Who moves memory for a reason of the kernel's own is not the caller.
        cpu_ns_per_page=None if cell.reason or cell.load else _cpu_ns_per_page(samples),
        faults=_faults(samples) if cell.load else None,
    )


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


def _check_determinism(rows: Iterable[Row], tally: Tally) -> None:
    for row in rows:
        off = len(row.gbps) - row.within(DETERMINISM)
        if off:
            tally.note(
                f"{row.experiment}, {shape_label(*row.shape)}, {row.method} on {row.kernel}: "
                f"{off} of {len(row.gbps)} counts are more than {DETERMINISM:.1%} from the median"
            )
