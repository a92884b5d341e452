# SPDX-License-Identifier: GPL-2.0-only
"""From one page to hundreds of MB: what the kernel chooses by itself beside each fixed choice.

The choice by itself is the method "parallel": the kernel's defaults, which use other CPUs where
there is enough to do for them, and none for a small move.
"""

from pagehaul.experiments.cell import Cell, Experiment, Shape, Size, compare_methods

QUICK = {4: (1, 8, 32, 128, 512, 2048)}
FULL = {4: (1, 8, 32, 128, 512, 2048, 8192, 65536), 64: (1, 2, 8, 32, 128, 4096), 2048: (1, 2, 128)}


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    return compare_methods(size.fitting(shapes), size)


EXPERIMENT = Experiment("policy", "Small and large moves, by every method", "parallel", _cells)
