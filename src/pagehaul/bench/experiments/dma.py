# SPDX-License-Identifier: GPL-2.0-only
"""Copies by DMA channels: the DMA tables of Garg, 2025, and what CPU and channels do together."""

from collections.abc import Iterable

from pagehaul.bench.cell import Cell, Shape, Size, optional
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import folio_size

CHANNELS = (1, 2, 4, 8, 16)
QUICK_CHANNELS = (1, 4)
QUICK_KB = (64, 2048)

FULL_COUNTS = (1, 8, 64, 256, 512, 1024, 2048, 8192)
QUICK_COUNTS = (1, 16)

# Channels of the experiments that compare with the CPU.
SOME_CHANNELS = 8

# Base pages of a batch: one of the default size is 2 MB, too few chunks for many channels.
SETTINGS = {"batch_pages": "8192"}


def _by_size(size: Size) -> tuple[Shape, ...]:
    total_kb = size.most_mb(folio_size.QUICK_TOTAL_MB, folio_size.FULL_TOTAL_MB) * 1024
    folio_kb = QUICK_KB if size.quick else folio_size.FOLIO_KB
    return size.fitting(Shape(kb, total_kb // kb) for kb in folio_kb)


def _cells(shapes: Iterable[Shape], methods: Iterable[tuple[str, int]]) -> tuple[Cell, ...]:
    """For every shape: vanilla, and Pagehaul by (method, channels); left out without channels."""
    cells = []
    for shape in shapes:
        cells.append(Cell(shape, "vanilla", "serial"))
        cells.append(Cell(shape, "pagehaul", "serial"))
        cells += optional(
            Cell(shape, "pagehaul", method, channels=channels, settings=SETTINGS)
            for method, channels in methods
        )
    return tuple(cells)


def _folio_size_cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_CHANNELS if size.quick else CHANNELS
    return _cells(_by_size(size), [("dma", count) for count in counts])


def _folio_count_cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_COUNTS if size.quick else FULL_COUNTS
    shapes = size.fitting(Shape(2048, count) for count in counts)
    return _cells(shapes, [("dma", 1)])


def _hybrid_cells(size: Size) -> tuple[Cell, ...]:
    methods = [("batch", 0), ("dma", SOME_CHANNELS), ("hybrid", SOME_CHANNELS)]
    return _cells(_by_size(size), methods)


# The caller is the only one that copies beside the channels, if anybody does.
_CPUS = (1, 2, 4)
_QUICK_CPUS = (2,)

FOLIO_SIZE = Experiment(
    "dma-folio-size",
    "Copies by DMA channels, by folio size",
    "dma",
    _folio_size_cells,
    cpus=_CPUS,
    quick_cpus=_QUICK_CPUS,
)
FOLIO_COUNT = Experiment(
    "dma-folio-count",
    "Copies by one DMA channel, by number of folios",
    "dma",
    _folio_count_cells,
    cpus=_CPUS,
    quick_cpus=_QUICK_CPUS,
)
HYBRID = Experiment(
    "hybrid",
    "Copies by the CPU, by DMA channels, by both",
    "dma",
    _hybrid_cells,
    cpus=_CPUS,
    quick_cpus=_QUICK_CPUS,
)
CPU_FREED = Experiment(
    "cpu-freed",
    "CPU time of copies by the CPU and by DMA channels",
    "dma",
    _hybrid_cells,
    cpus=_CPUS,
    quick_cpus=_QUICK_CPUS,
)
