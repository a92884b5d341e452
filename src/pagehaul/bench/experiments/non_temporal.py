# SPDX-License-Identifier: GPL-2.0-only
"""Copies past the caches: what they save, what they spare others, and what the next reader pays.

The default of non_temporal is to be judged by this table, on the machine where it is to be used.
"""

from dataclasses import replace

from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measures.reads import MEASURE as READS

QUICK = (Shape(2048, 16),)
FULL = (Shape(4, 4096), Shape(64, 1024), Shape(2048, 128))

# What somebody else has in the caches: about a core's second level, which no other core shares.
CACHE_KB = 1024

PAST_CACHES = {"non_temporal": "always"}


def _cells(size: Size) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for shape in size.fitting(QUICK if size.quick else FULL):
        cells.append(Cell(shape, "vanilla", "serial"))
        methods = [("batch", 1), *(("parallel", count) for count in size.thread_counts()[-1:])]
        for method, threads in methods:
            through = Cell(shape, "pagehaul", method, threads)
            cells += [through, replace(through, settings=PAST_CACHES)]
    return tuple(READS.ask(cell, CACHE_KB) for cell in cells)


EXPERIMENT = Experiment(
    "non-temporal",
    "Copies through the caches, and past them",
    PARALLEL,
    _cells,
    place=120,
    about_caches=True,
)
