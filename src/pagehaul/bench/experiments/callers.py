# SPDX-License-Identifier: GPL-2.0-only
"""What a user would do instead: several callers of the plain system call on disjoint ranges."""

from pagehaul.bench.cell import Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL

CALLERS = (2, 4)
FOLIO_KB = (4, 64, 2048)
QUICK_TOTAL_MB = 64
FULL_TOTAL_MB = 512


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB)
    shapes = [Shape(folio_kb, total_mb * 1024 // folio_kb) for folio_kb in FOLIO_KB]
    cells: list[Cell] = []
    for shape in size.fitting(shapes):
        cells += [Cell(shape, "vanilla", "callers", count) for count in CALLERS]
        cells += compare_methods([shape], size)
    return tuple(cells)


EXPERIMENT = Experiment(
    "callers",
    "Several callers on vanilla beside one caller on Pagehaul",
    PARALLEL,
    _cells,
    place=60,
    cpus=(4, 8, 16),
    quick_cpus=(4,),
)
