# SPDX-License-Identifier: GPL-2.0-only
"""Latency of faults for huge pages that compaction has to make: the table of Wang, 2023.

In the manner of thpscale: a node is filled with base pages, every other one of them is freed, and
threads fault in huge pages there.
"""

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment

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


EXPERIMENT = Experiment(
    "compaction-latency",
    "Latency of faults while memory is compacted",
    "faults",
    _cells,
    place=150,
    guest_only=True,
    on_request=True,
    kernels=(KERNEL,),
    quick_cpus=(4,),
)
