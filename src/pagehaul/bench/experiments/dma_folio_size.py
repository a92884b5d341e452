# SPDX-License-Identifier: GPL-2.0-only
"""Copies by DMA channels, by folio size: the table of Garg, 2025."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import Cell, Size
from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, by_size, cells
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table
from pagehaul.bench.machines.kinds import DMA
from pagehaul.bench.row import Row

CHANNELS = (1, 2, 4, 8, 16)
QUICK_CHANNELS = (1, 4)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_CHANNELS if size.quick else CHANNELS
    return cells(by_size(size), [("dma", count) for count in counts])


def _published(rows: Sequence[Row]) -> Table:
    figures = published.by_folio_size("DMA offload")
    channels = {row.channels for row in rows if row.channels}
    counts = sorted(channels | {count for _, count in figures})

    def measured(mine: Sequence[Row]) -> list[tuple[str, ...]]:
        ratios = beside.by_channels(mine)
        return [("here", *(beside.ratio(ratios.get(count)) for count in counts))] if ratios else []

    return beside.by_size(rows, figures, counts, "chan.", measured)


EXPERIMENT = Experiment(
    "dma-folio-size",
    "Copies by DMA channels, by folio size",
    DMA,
    _cells,
    place=180,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    published=_published,
)
