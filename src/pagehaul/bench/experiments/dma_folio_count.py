# SPDX-License-Identifier: GPL-2.0-only
"""Copies by one DMA channel, by number of folios: the table of Garg, 2025."""

from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, cells
from pagehaul.bench.experiment import Experiment

FULL_COUNTS = (1, 8, 64, 256, 512, 1024, 2048, 8192)
QUICK_COUNTS = (1, 16)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_COUNTS if size.quick else FULL_COUNTS
    shapes = size.fitting(Shape(2048, count) for count in counts)
    return cells(shapes, [("dma", 1)])


EXPERIMENT = Experiment(
    "dma-folio-count",
    "Copies by one DMA channel, by number of folios",
    "dma",
    _cells,
    place=190,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
)
