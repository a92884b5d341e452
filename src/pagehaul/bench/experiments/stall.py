# SPDX-License-Identifier: GPL-2.0-only
"""How long a thread waits that uses the memory while it moves."""

from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measures.touch import MEASURE as TOUCH

FOLIO_KB = (4, 2048)
QUICK_TOTAL_MB = 64
FULL_TOTAL_MB = 256

QUICK_METHODS = ("batch", "parallel")

# Microseconds from one touch to the next: the CPU of the thread is idle most of the time.
TOUCH_US = 200


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB)
    shapes = [Shape(folio_kb, total_mb * 1024 // folio_kb) for folio_kb in FOLIO_KB]
    # In virtual time the caller's CPU is busy for long, so that there are enough touches.
    methods = QUICK_METHODS if size.quick and size.model else METHODS
    cells = compare_methods(size.fitting(shapes), size, methods)
    return tuple(TOUCH.ask(cell, TOUCH_US) for cell in cells)


EXPERIMENT = Experiment(
    "stall",
    "Waits for memory that moves",
    PARALLEL,
    _cells,
    place=90,
    quick_cpus=(8,),
)
