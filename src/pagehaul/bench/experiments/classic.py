# SPDX-License-Identifier: GPL-2.0-only
"""The two measurements of Khandual and Yan, 2017: 400 MB as base pages and as huge pages."""

from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment

SHAPES = (Shape(4, 100_000), Shape(2048, 195))
# Nothing else moves so much.
QUICK_METHODS = ("serial", "parallel")


def _cells(size: Size) -> tuple[Cell, ...]:
    methods = QUICK_METHODS if size.quick else METHODS
    return compare_methods(size.fitting(SHAPES), size, methods)


EXPERIMENT = Experiment(
    "classic",
    "100,000 base pages and 195 huge pages",
    "parallel",
    _cells,
    place=50,
    quick_cpus=(4,),
)
