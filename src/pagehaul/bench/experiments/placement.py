# SPDX-License-Identifier: GPL-2.0-only
"""Helpers spread over the last-level caches, or one cache filled first: the table of Garg, 2025."""

from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.experiment import Experiment

QUICK = (Shape(2048, 32),)
FULL = (Shape(4, 65536), Shape(2048, 256))

PLACEMENTS = ("spread", "fill")


def _cells(size: Size) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for shape in size.fitting(QUICK if size.quick else FULL):
        cells += [Cell(shape, "vanilla", "serial"), Cell(shape, "pagehaul", "serial")]
        # Half of them, so that there is a choice, and all.
        some = (size.cpus // 2, size.cpus) if size.model else size.thread_counts()
        for count in (count for count in some if count > 1):
            cells += [
                Cell(shape, "pagehaul", "parallel", count, settings={"placement": placement})
                for placement in PLACEMENTS
            ]
    return tuple(cells)


EXPERIMENT = Experiment(
    "placement",
    "Helpers spread over caches, or in one first",
    "dies",
    _cells,
    place=130,
    cpus=(4, 8, 16),
    quick_cpus=(8,),
)
