# SPDX-License-Identifier: GPL-2.0-only
"""Throughput by the number of folios: the tables of Yan, 2025."""

from pagehaul.bench.cell import Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment

QUICK = {64: (32, 256, 1024), 2048: (1, 4, 16, 64)}
FULL = {64: (32, 256, 512, 768, 1024), 2048: (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024)}


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    return compare_methods(size.fitting(shapes), size)


EXPERIMENT = Experiment(
    "folio-count",
    "Throughput by number of folios",
    "parallel",
    _cells,
    place=30,
    quick_cpus=(8,),
)
