# SPDX-License-Identifier: GPL-2.0-only
"""How long a thread waits that uses the memory while it moves."""

from dataclasses import replace

from pagehaul.experiments.cell import Cell, Experiment, Shape, Size, compare_methods

FOLIO_KB = (4, 2048)
QUICK_TOTAL_MB = 64
FULL_TOTAL_MB = 256

# Microseconds from one touch to the next: the CPU of the thread is idle most of the time.
TOUCH_US = 200


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB)
    shapes = [Shape(folio_kb, total_mb * 1024 // folio_kb) for folio_kb in FOLIO_KB]
    cells = compare_methods(size.fitting(shapes), size)
    return tuple(replace(cell, touch_us=TOUCH_US) for cell in cells)


EXPERIMENT = Experiment(
    "stall",
    "Waits for memory that moves",
    "parallel",
    _cells,
    # The thread that reads has a CPU, or takes one from who moves.
    quick_cpus=(2, 8),
)
