# SPDX-License-Identifier: GPL-2.0-only
"""Throughput by folio size for a constant total: the table of Garg, 2025."""

from pagehaul.bench.cell import Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment

FOLIO_KB = (4, 16, 32, 64, 128, 256, 512, 1024, 2048)
# On each of several machines.
VIRTUAL_QUICK_KB = (4, 64, 2048)
QUICK_TOTAL_MB = 32
FULL_TOTAL_MB = 1024


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB)
    # Whole folios of the largest size, so that the total is the same for all.
    total_kb = total_mb * 1024 // max(FOLIO_KB) * max(FOLIO_KB)
    sizes = VIRTUAL_QUICK_KB if size.quick and size.model else FOLIO_KB
    shapes = [Shape(folio_kb, total_kb // folio_kb) for folio_kb in sizes]
    return compare_methods(size.fitting(shapes), size)


EXPERIMENT = Experiment(
    "folio-size",
    "Throughput by folio size",
    "parallel",
    _cells,
    place=40,
)
