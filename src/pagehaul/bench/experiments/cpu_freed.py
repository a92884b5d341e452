# SPDX-License-Identifier: GPL-2.0-only
"""CPU time of copies by the CPU and by DMA channels.

The cells are those of `hybrid`, and measured once.
"""

from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, hybrid_cells
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import DMA
from pagehaul.bench.measures import cpu_time

EXPERIMENT = Experiment(
    "cpu-freed",
    "CPU time of copies by the CPU and by DMA channels",
    DMA,
    hybrid_cells,
    place=210,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    view=cpu_time.VIEW,
)
