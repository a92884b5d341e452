# SPDX-License-Identifier: GPL-2.0-only
"""Helpers spread over the last-level caches, or one cache filled first: the table of Garg, 2025."""

from pagehaul.experiments.cell import Cell, Experiment, Shape, Size

QUICK = (Shape(2048, 32),)
FULL = (Shape(4, 65536), Shape(2048, 256))

PLACEMENTS = ("spread", "fill")


def _cells(size: Size) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for shape in size.fitting(QUICK if size.quick else FULL):
        cells += [Cell(shape, "vanilla", "serial"), Cell(shape, "pagehaul", "serial")]
        for count in size.thread_counts():
            cells += [
                Cell(shape, "pagehaul", "parallel", count, settings={"placement": placement})
                for placement in PLACEMENTS
            ]
    return tuple(cells)


EXPERIMENT = Experiment("placement", "Helpers spread over caches, or in one first", "dies", _cells)
