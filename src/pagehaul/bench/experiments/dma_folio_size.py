# SPDX-License-Identifier: GPL-2.0-only
"""Copies by DMA channels, by folio size: the table of Garg, 2025."""

from pagehaul.bench.cell import Cell, Size
from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, by_size, cells
from pagehaul.bench.experiment import Experiment

CHANNELS = (1, 2, 4, 8, 16)
QUICK_CHANNELS = (1, 4)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_CHANNELS if size.quick else CHANNELS
    return cells(by_size(size), [("dma", count) for count in counts])


EXPERIMENT = Experiment(
    "dma-folio-size",
    "Copies by DMA channels, by folio size",
    "dma",
    _cells,
    place=180,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
)
