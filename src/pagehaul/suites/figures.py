# SPDX-License-Identifier: GPL-2.0-only
"""The suites that measure: a small run of the benchmark, and bounds on the path length."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from pagehaul.bench import store
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import BASE_PAGE, Cell, Shape, Size, compare_methods
from pagehaul.bench.choices import forced
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments.path_length import SMALL
from pagehaul.bench.experiments.stall import TOUCH_US
from pagehaul.bench.machines import setup
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measures.cpu_time import MEASURE as CPU_TIME
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.measures.remap import MEASURE as REMAP
from pagehaul.bench.measures.touch import MEASURE as TOUCH
from pagehaul.bench.measures.touch import Touch
from pagehaul.bench.measuring import measure
from pagehaul.bench.row import Results, Row, find_baseline
from pagehaul.kernel.bases import Base
from pagehaul.report import terminal
from pagehaul.suites import room
from pagehaul.suites.outcomes import Outcome, Status, failed, passed, verdict

# Instructions of one CPU for each page moved, as a multiple of the unmodified kernel's.
MAX_PATH_OFF = 1.005
MAX_PATH_BATCH = 1.02
# Of moves of few base pages, in every mode.
MAX_PATH_SMALL = 1.02
# So many repetitions in a row are looked at together, of that many boots. For one page a kernel
# takes 1% more, or not, for dozens of moves: in one of two boots a mode of ours did in all 50.
# Where the shortest stretch of three boots is too long, those of nine decide.
_STRETCH = 25
_PATH_BOOTS = (3, 9)

# Beside a hog, as parts of the unmodified kernel's: speed at least, and CPU time at most.
MIN_BUSY_SPEED = 0.95
MAX_BUSY_CPU = 1.02
# Of a shorter move, one slice of the scheduler more or less is a fifth of the time, and how many of
# the hog's fall into it is chance: the unmodified kernel moves 16 MB in 12 ms or in 25, in one and
# the same run. Only the time that the move itself takes can be compared then.
_SLICES_NS = 20_000_000

_SMOKE_SHAPES = (Shape(4, 1024), Shape(64, 64), Shape(2048, 8))
_TRACED = Shape(4, 512)
# So little that the kernel asks nobody to help with it, unless that is forced.
_LITTLE = Shape(4, 32)
_LITTLE_CPUS = 2
_TOUCHED = Shape(4, 2048)


def _smoke_cells(size: Size) -> tuple[Cell, ...]:
    cells = compare_methods(size.fitting(_SMOKE_SHAPES), size)
    traced = compare_methods([_TRACED], size, ("parallel",))
    # In this order: what one has set must not be there for the other.
    little = Cell(_LITTLE, "pagehaul", "parallel", _LITTLE_CPUS, condition="little")
    cells += (replace(little, settings=forced(_LITTLE, _LITTLE_CPUS)), little)
    cells += tuple(REMAP.ask(replace(cell, condition="traced")) for cell in traced)
    touched = compare_methods([_TOUCHED], size, ("parallel",))
    return cells + tuple(
        TOUCH.ask(replace(cell, condition="touched"), TOUCH_US) for cell in touched
    )


_SMOKE = Experiment(
    "smoke", "A little of everything", PARALLEL, _smoke_cells, quick_cpus=(_LITTLE_CPUS,)
)


def _measure(base: Base | None, experiment: Experiment, boots: int | None = None) -> Results:
    machine = setup.guests([experiment], base, quick=True, large=True)
    # The benchmark sees itself to how many of its guests there are at once.
    with room.hold(0, alone=True):
        return measure(
            [experiment], machine, quick=True, on_part=terminal.print_tables, boots=boots
        )


def smoke(base: Base | None = None) -> list[Outcome]:
    """Run a small benchmark: every method moves everything, and every byte is right."""
    measured = _measure(base, _SMOKE)
    integrity = measured.integrity
    outcomes = [
        verdict(
            "every byte is what was written",
            f"{integrity.mismatches} words of {integrity.bytes_verified} bytes are not"
            if integrity.mismatches or not integrity.bytes_verified
            else "",
        ),
        verdict(
            "every folio moved", f"{integrity.not_moved} did not" if integrity.not_moved else ""
        ),
    ]
    for kernel, method in (
        ("vanilla", "serial"),
        ("pagehaul", "serial"),
        ("pagehaul", "batch"),
        ("pagehaul", "threads"),
    ):
        rows = [row for row in measured.rows if (row.kernel, row.method) == (kernel, method)]
        shapes = {row.shape for row in rows if not row.condition}
        wanted = {(shape.folio_kb, shape.folios) for shape in _SMOKE_SHAPES}
        outcomes.append(
            verdict(
                f"{method} on {kernel} is measured",
                f"only {len(shapes)} of {len(wanted)} shapes" if shapes != wanted else "",
            )
        )
    outcomes.append(check_remaps(measured.rows))
    outcomes += check_forced(measured.rows)
    outcomes.append(check_touches(measured.rows))
    with TemporaryDirectory(prefix="pagehaul-smoke-") as directory:
        path = Path(directory) / "smoke.json"
        store.dump(measured, path)
        same = store.load(path).rows == measured.rows
    outcomes.append(verdict("the JSON file reads back", "" if same else "other rows came back"))
    return outcomes


def check_remaps(rows: Iterable[Row]) -> Outcome:
    """Return a test that folios come back one after the other, and before their call ends."""
    traced = [(row, remap) for row in rows if (remap := REMAP.of(row)) is not None]
    wrong = [
        f"{row.method} on {row.kernel}: {remap}, call {row.bytes / row.median_gbps:.0f} ns"
        for row, remap in traced
        if not 0 < remap.first_ns < remap.last_ns < row.bytes / row.median_gbps
    ]
    if {row.kernel for row, _ in traced} != {"vanilla", "pagehaul"}:
        wrong.append("not traced on both kernels")
    return verdict("the first and the last folio are back within the call", "; ".join(wrong))


def check_touches(rows: Iterable[Row]) -> Outcome:
    """Return a test that all touches are kept, and not only the longest of each move."""
    touched = [(row, touch) for row in rows if (touch := TOUCH.of(row)) is not None]
    wrong = [
        f"{row.method} on {row.kernel}: {touch}" for row, touch in touched if not _all_kept(touch)
    ]
    if {row.kernel for row, _ in touched} != {"vanilla", "pagehaul"}:
        wrong.append("not measured on both kernels")
    return verdict("all touches are kept", "; ".join(wrong))


def _all_kept(touch: Touch) -> bool:
    every = touch.all
    # There is a longest one there, and one back.
    if every is None or every.count <= 2 * touch.moves:
        return False
    # Steps of the histogram are less than that.
    return 0 < every.p99_ns <= touch.max_ns * 1.01


def check_forced(rows: Iterable[Row]) -> list[Outcome]:
    """Return tests that help is asked for where that is forced, and not after that."""
    little = [row for row in rows if row.condition == "little"]
    # Asked in vain is asked as well.
    asked = {bool(row.settings): row.counters.get("migrate_copy.requests", 0) for row in little}
    if set(asked) != {True, False}:
        return [failed("help with little, forced and not", "both were not measured")]
    return [
        verdict("help with little can be forced", "" if asked[True] else "nobody was asked"),
        verdict(
            "settings are put back after a cell",
            f"{asked[False]} times somebody was asked to help with little" if asked[False] else "",
        ),
    ]


def path_length(base: Base | None = None) -> list[Outcome]:
    """Count instructions: next to nothing more than the unmodified kernel's, nor beside a hog."""
    found: list[Outcome] = []
    for boots in _PATH_BOOTS:
        alone = _measure(base, EXPERIMENTS["path-length"], boots=boots)
        found = check_path_length(alone.rows)
        if all(each.status is not Status.FAILED for each in found):
            break
    return found + check_busy(_measure(base, EXPERIMENTS["busy-counted"]).rows)


def check_busy(rows: Iterable[Row]) -> list[Outcome]:
    """Return a test for each cell beside a hog: as fast as the unmodified kernel, at its cost."""
    found = list(rows)
    outcomes = []
    for row in found:
        base = find_baseline(row, found)
        if row.kernel != "pagehaul":
            continue
        name = f"busy, {row.folio_kb} KB x {row.folios}, {row.method}: not behind vanilla"
        ours, theirs = CPU_TIME.of(row), None if base is None else CPU_TIME.of(base)
        if base is None or not theirs or not ours:
            outcomes.append(failed(name, "it was not measured on both kernels"))
            continue
        speed = row.median_gbps / base.median_gbps
        cpu = ours / theirs
        short = theirs * row.bytes / BASE_PAGE < _SLICES_NS
        fast = speed >= MIN_BUSY_SPEED or short
        right = fast and cpu <= MAX_BUSY_CPU
        outcomes.append(
            verdict(name, "" if right else f"speed {speed:.3f}, CPU time {cpu:.3f} of vanilla's")
        )
    return outcomes or [failed("busy: not behind vanilla", "nothing was measured")]


def _usual_speed(row: Row) -> float:
    """Return the speed of the path that a kernel usually takes, when nothing else lengthens it.

    That is the mean of the quickest third of a stretch of repetitions, the best of all stretches.
    The shortest path is chance: one page takes 16,940 instructions mostly, and 2% less once. What
    else a kernel does only adds: Linux 7.3 empties lists of free pages in half of the moves, 2% for
    huge pages. And from one move on, until the guest ends, a move may take 3% more for one page; of
    16 boots that was seen in one, in all modes, and what it is has not been found.
    """
    parts = [row.gbps[i : i + _STRETCH] for i in range(0, len(row.gbps), _STRETCH)]
    return max(fmean(sorted(part, reverse=True)[: -(-len(part) // 3)]) for part in parts)


def check_path_length(rows: Iterable[Row]) -> list[Outcome]:
    """Return a test for each folio size and mode that is to keep a bound."""
    found = list(rows)
    vanilla = {row.shape: row for row in found if row.kernel == "vanilla"}
    bounds = {
        "serial": ("off", MAX_PATH_OFF),
        "batch": ("batch", MAX_PATH_BATCH),
        "parallel": ("parallel", MAX_PATH_BATCH),
    }
    outcomes = []
    for row in found:
        if row.kernel != "pagehaul" or row.method not in bounds:
            continue
        mode, bound = bounds[row.method]
        what = f"{row.folio_kb} KB"
        if row.bytes <= max(SMALL) * BASE_PAGE:
            what, bound = f"{what} x {row.folios}", MAX_PATH_SMALL
        name = f"{what}, {mode}: at most {bound} times vanilla's instructions"
        base = vanilla.get(row.shape)
        if base is None or not INSTRUCTIONS.of(base) or not INSTRUCTIONS.of(row):
            outcomes.append(failed(name, "instructions were not counted"))
            continue
        ratio = _usual_speed(base) / _usual_speed(row)
        outcomes.append(failed(name, f"{ratio:.4f}") if ratio > bound else passed(name))
    if not bounds.keys() <= {row.method for row in found if row.kernel == "pagehaul"}:
        outcomes.append(failed("path length of every mode", "not all modes were measured"))
    return outcomes
