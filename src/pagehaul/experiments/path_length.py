# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each page moved, on one CPU: the figure that no noise reaches."""

from pagehaul.experiments.cell import Cell, Experiment, Shape, Size, compare_methods

QUICK_KB = (4, 64, 2048)
FULL_KB = (4, 16, 32, 64, 128, 256, 512, 1024, 2048)
QUICK_TOTAL_MB = 32
FULL_TOTAL_MB = 128


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = QUICK_TOTAL_MB if size.quick else FULL_TOTAL_MB
    sizes = QUICK_KB if size.quick else FULL_KB
    shapes = [Shape(folio_kb, total_mb * 1024 // folio_kb) for folio_kb in sizes]
    return compare_methods(size.fitting(shapes), size)


EXPERIMENT = Experiment("path-length", "Instructions per page", "icount", _cells)
