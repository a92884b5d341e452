# SPDX-License-Identifier: GPL-2.0-only
"""The simulator keeps its promises: figures repeat on a busy host, and slow memory is slow."""

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import shape_label
from pagehaul.bench.machines import setup
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measuring import measure
from pagehaul.bench.row import Results, Row
from pagehaul.guest import cprogs, models
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.kernel.bases import Base
from pagehaul.paths import REPO
from pagehaul.suites import room
from pagehaul.suites.outcomes import Outcome, failed, verdict
from pagehaul.suites.programs import Program, flat, run_programs
from pagehaul.suites.suite import Subject, Suite
from pagehaul.ui import kill_group

# How far two runs of a cell may be apart, and the part of all turns that may end by force.
MOST_APART = 0.02
MOST_FORCED = 0.001

# A model in which lines travel and memory has a limit, and enough CPUs to get in each other's way.
_MODEL = "epyc-zen3"
_CPUS = 4
# One whose node without CPUs is slow.
_SLOW_MODEL = "cxl"
_HOGS = ("stress-ng", "--cpu", "4")

_SHAPES = (Shape(4, 4096), Shape(2048, 32))


def _cells(size: Size) -> tuple[Cell, ...]:
    return tuple(
        cell
        for shape in size.fitting(_SHAPES)
        for cell in (
            Cell(shape, "vanilla", "serial"),
            Cell(shape, "vanilla", "callers", size.cpus),
            Cell(shape, "pagehaul", "threads", size.cpus),
            Cell(shape, "pagehaul", "parallel", size.cpus),
        )
    )


_EXPERIMENT = Experiment(
    "repeatable", "The same cells again", PARALLEL, _cells, quick_cpus=(_CPUS,), models=(_MODEL,)
)


@contextmanager
def _busy_host() -> Iterator[None]:
    """Keep all CPUs of this machine busy."""
    hogs = subprocess.Popen(
        _HOGS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        kill_group(hogs)


def _measure(base: Base | None, beside: AbstractContextManager[None]) -> Results:
    machine = setup.guests([_EXPERIMENT], base, quick=True, large=True)
    # In this order: what is beside it is beside no other suite.
    with room.hold(0, alone=True), beside:
        return measure([_EXPERIMENT], machine, quick=True, on_part=lambda *_: None)


def _work(subject: Subject) -> list[Outcome]:
    """Measure some cells on this host as it is, and again while it is busy."""
    tools.require("stress-ng")
    first = _measure(subject.base, nullcontext())
    second = _measure(subject.base, _busy_host())
    return [
        *check_rows(first.rows, second.rows),
        check_forced(first),
        check_forced(second),
        *_check_memory(subject),
    ]


def _check_memory(subject: Subject) -> list[Outcome]:
    """Return tests of what a load takes that no cache has, from a node with CPUs and without."""
    model = models.load(_SLOW_MODEL)
    guest = Guest(cpus=2, nodes=1, memory_only_nodes=1, memory_mb=1024, model=model)
    program = cprogs.build_static(REPO / "tests/guest") / "slowload"
    command = shlex.join([str(program), str(model.load_near_ns), str(model.load_slow_ns)])
    kernel = build.build("pagehaul", subject.base)
    found = run_programs(subject.suite, kernel, guest, [Program("memory", command)])
    return flat(found, kernel)


def check_rows(first: Sequence[Row], second: Sequence[Row]) -> list[Outcome]:
    """Return a test for each cell: both runs gave the same figure."""
    again = {_name(row): row for row in second}
    outcomes = []
    for row in first:
        name = _name(row)
        other = again.pop(name, None)
        if other is None:
            outcomes.append(failed(name, "the second run has no such cell"))
            continue
        apart = abs(other.median_gbps / row.median_gbps - 1)
        why = (
            f"{row.median_gbps:.4f} and {other.median_gbps:.4f} GB/s" if apart > MOST_APART else ""
        )
        outcomes.append(verdict(name, why))
    outcomes += [failed(name, "the first run has no such cell") for name in again]
    return outcomes or [failed("cells repeat", "nothing was measured")]


def check_forced(results: Results) -> Outcome:
    """Return a test that next to no turn of the simulator ended by force."""
    name = "turns end by themselves"
    counted = results.environment.get("slices", {})
    slices, forced = counted.get("slices", 0), counted.get("forced", 0)
    if not slices:
        return failed(name, "none were counted")
    return verdict(name, f"{forced} of {slices} did not" if forced > slices * MOST_FORCED else "")


def _name(row: Row) -> str:
    label = shape_label(row.folio_kb, row.folios)
    return f"repeats within {MOST_APART:.0%}: {label}, {row.method} {row.threads} on {row.kernel}"


SUITE = Suite("repeatable", 200, _work, alone=True)
