# SPDX-License-Identifier: GPL-2.0-only
"""Copies by the CPU, by DMA channels, by both."""

from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, hybrid_cells
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import DMA

EXPERIMENT = Experiment(
    "hybrid",
    "Copies by the CPU, by DMA channels, by both",
    DMA,
    hybrid_cells,
    place=200,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
)
