# SPDX-License-Identifier: GPL-2.0-only
"""hugetlb pages: 2 MB and, where the nodes have some, 1 GB."""

from pagehaul.bench.cell import GIGANTIC_KB, Cell, Shape, Size, compare_methods, optional
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL

QUICK_FOLIOS = (1, 32)
FULL_FOLIOS = (1, 4, 16, 64, 256)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_FOLIOS if size.quick else FULL_FOLIOS
    shapes = [Shape(2048, folios, hugetlb=True) for folios in counts]
    cells = compare_methods(size.fitting(shapes), size)
    if size.gigantic_pages:
        gigantic = [Shape(GIGANTIC_KB, 1, hugetlb=True)]
        cells += optional(compare_methods(gigantic, size))
    return cells


EXPERIMENT = Experiment(
    "hugetlb",
    "hugetlb pages",
    PARALLEL,
    _cells,
    place=70,
    quick_cpus=(8,),
)
