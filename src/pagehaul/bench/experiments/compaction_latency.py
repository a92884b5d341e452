# SPDX-License-Identifier: GPL-2.0-only
"""Latency of faults for huge pages that compaction has to make: the table of Wang, 2023.

In the manner of thpscale: a node is filled with base pages, every other one of them is freed, and
threads fault in huge pages there.
"""

from collections.abc import Sequence
from itertools import product
from statistics import fmean

from pagehaul.bench import published
from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import FAULTING
from pagehaul.bench.means import interval
from pagehaul.bench.measures.faults import MEASURE as FAULTS
from pagehaul.bench.row import Row
from pagehaul.bench.views.fault_figures import MARKS, Lines, change, marked, quantity, view

THREADS = (1, 3, 5, 7, 12, 18, 24, 30, 32)
# More of them for each CPU say nothing more.
THREADS_PER_CPU = 2

# Huge pages that all threads together fault in.
QUICK_FOLIOS = 32
FULL_FOLIOS = 48

# The kernel that has a switch for that.
KERNEL = "judge"

# For which folios migration drains: before 6.7, since then, and with Pagehaul.
DRAINS = ("mapped", "mlocked", "never")

MAPPED, MLOCKED = "mapped pages in the way", "mlocked pages in the way"


def threads(cpus: int) -> tuple[int, ...]:
    """Return the published numbers of threads that so many CPUs are measured with."""
    return tuple(count for count in THREADS if count <= THREADS_PER_CPU * cpus)


def _chosen(size: Size) -> tuple[int, ...]:
    """Return those of a run; each fills a node several times."""
    found = threads(size.cpus)
    return found[:: len(found) - 1] if size.quick and size.model and len(found) > 1 else found


def _cells(size: Size) -> tuple[Cell, ...]:
    shape = Shape(2048, QUICK_FOLIOS if size.quick else FULL_FOLIOS)
    return tuple(
        Cell(
            shape,
            KERNEL,
            "faults",
            count,
            condition=condition,
            settings={"lru_drain": drain},
            load=Load("compaction", mlocked=condition == MLOCKED, drain=drain),
        )
        for condition in (MAPPED, MLOCKED)
        for count in _chosen(size)
        for drain in DRAINS
    )


def _lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of the table."""
    figures = published.by_fault_latency()
    body = []
    machines = sorted({row.cpus for row in rows})
    several = len(machines) > 1
    for condition, cpus in product(dict.fromkeys(row.condition for row in rows), machines):
        mine = [row for row in rows if (row.condition, row.cpus) == (condition, cpus)]
        counts = {row.threads for row in mine}
        # Figures that are published, but not measured, stand there once.
        for number in sorted(counts | (set(figures) if cpus == machines[-1] else set())):
            found = {row.settings.get("lru_drain"): row for row in mine if row.threads == number}
            names = (condition, *([f"{cpus}"] if several else []), f"fault-both-{number}")
            body.append((*names, *_latency_cells(found, number)))
    header = (
        "condition",
        *(["CPUs"] if several else []),
        "threads",
        "drain for mapped, us",
        "for mlocked, us",
        "once a batch or never, us",
        "huge",
        "published, for mapped, us",
        "for mlocked, us",
    )
    origin = published.SOURCES["wang-2023"]
    caption = (
        "Mean latency of the faults, and half of its 95% confidence interval; the change against "
        "a drain for every mapped folio; lower is better. huge: faults that got a huge page. "
        f"{MARKS} Published: {origin.label}, {origin.title}; {origin.hardware}."
    )
    return caption, header, tuple(body)


def _latency_cells(found: dict[str | None, Row], number: int) -> list[str]:
    cells = []
    base = found.get(DRAINS[0])
    alloc = faults = 0
    for drain in DRAINS:
        row = found.get(drain)
        seen = None if row is None else FAULTS.of(row)
        if row is None or seen is None:
            cells.append("")
            continue
        us = [ns / 1000 for ns in seen.latency_ns]
        text = f"{fmean(us):,.0f}" + (f" ± {interval(us):,.0f}" if len(us) > 1 else "")
        slowest = None if base is None or base is row else FAULTS.of(base)
        if slowest is not None:
            text += f" ({marked(slowest.latency_ns, seen.latency_ns)})"
        cells.append(text)
        alloc += row.counters.get("vmstat.thp_fault_alloc", 0)
        faults += row.folios * len(seen.ns)
    cells.append(f"{alloc / faults:.0%}" if faults else "")
    beside = published.by_fault_latency().get(number)
    if beside is None:
        return [*cells, "", ""]
    return [*cells, f"{beside[0]:,.0f}", f"{beside[1]:,.0f} ({change(*beside):+.2f}%)"]


def _drained(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row with a drain for every mapped folio, for one of the others."""
    if row.settings.get("lru_drain") == DRAINS[0]:
        return None
    for other in rows:
        same = (other.condition, other.machine, other.threads)
        alike = same == (row.condition, row.machine, row.threads)
        if alike and other.settings.get("lru_drain") == DRAINS[0]:
            return other
    return None


EXPERIMENT = Experiment(
    "compaction-latency",
    "Latency of faults while memory is compacted",
    FAULTING,
    _cells,
    place=150,
    guest_only=True,
    on_request=True,
    kernels=(KERNEL,),
    quick_cpus=(4,),
    view=view(
        _lines,
        quantity(
            "Latency of a fault (below 1 is better)",
            lambda seen: seen.latency_ns,
            base=_drained,
            by="the figure with a drain for every mapped folio",
        ),
    ),
)
