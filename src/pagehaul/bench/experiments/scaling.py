# SPDX-License-Identifier: GPL-2.0-only
"""One caller with more and more helpers, beside more and more callers of the plain system call.

All of it is measured on one machine, the largest one, so that nothing differs but who works.
"""

from pagehaul.bench.cell import GIGANTIC_KB, Cell, Shape, Size, optional, powers_of_two
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.views import scaling

CPUS = (32,)
QUICK_CPUS = (16,)

FOLIO_KB = (4, 64, 2048)
TOTAL_MB = 64, 512

# Folios of hugetlb have a baseline of their own.
HUGETLB = "hugetlb"


def _ours(shape: Shape, counts: tuple[int, ...], condition: str) -> list[Cell]:
    return [Cell(shape, "pagehaul", "parallel", count, condition=condition) for count in counts]


def _callers(shape: Shape, counts: tuple[int, ...], condition: str) -> list[Cell]:
    return [Cell(shape, "vanilla", "callers", count, condition=condition) for count in counts]


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = powers_of_two(1, size.cpus)
    total_kb = size.most_mb(*TOTAL_MB) * 1024
    shapes = [(Shape(folio_kb, total_kb // folio_kb), "") for folio_kb in FOLIO_KB]
    shapes.append((Shape(2048, total_kb // 2048, hugetlb=True), HUGETLB))
    cells: list[Cell] = []
    for shape, condition in shapes:
        cells += _callers(shape, counts, condition) + _ours(shape, counts, condition)
    if size.gigantic_pages:
        # A page cannot be divided among callers.
        shape = Shape(GIGANTIC_KB, 1, hugetlb=True)
        cells += optional(_callers(shape, (1,), HUGETLB) + _ours(shape, counts, HUGETLB))
    return tuple(cells)


EXPERIMENT = Experiment(
    "scaling",
    "One caller and its helpers, beside several callers on vanilla",
    PARALLEL,
    _cells,
    place=20,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    view=scaling.VIEW,
)
