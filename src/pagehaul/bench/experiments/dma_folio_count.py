# SPDX-License-Identifier: GPL-2.0-only
"""Copies by one DMA channel, by number of folios: the table of Garg, 2025."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, cells
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table, shape_label
from pagehaul.bench.machines.kinds import DMA
from pagehaul.bench.row import Row

FULL_COUNTS = (1, 8, 64, 256, 512, 1024, 2048, 8192)
QUICK_COUNTS = (1, 16)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK_COUNTS if size.quick else FULL_COUNTS
    shapes = size.fitting(Shape(2048, count) for count in counts)
    return cells(shapes, [("dma", 1)])


def _published(rows: Sequence[Row]) -> Table:
    figures = published.by_huge_folio_count("DMA, 1 channel")
    measured = {row.folios for row in rows}
    body = []
    for folios in sorted({*figures, *measured}):
        ratios = beside.by_channels([row for row in rows if row.folios == folios])
        body.append(
            (
                shape_label(2048, folios),
                beside.ratio(ratios.get(1, next(iter(ratios.values()), None))),
                beside.gbps(figures.get(folios)),
            )
        )
    header = ("folios", "here", "published, GB/s")
    return Table(
        beside.title(rows), beside.caption("garg-2025", beside.NO_VANILLA), header, tuple(body)
    )


EXPERIMENT = Experiment(
    "dma-folio-count",
    "Copies by one DMA channel, by number of folios",
    DMA,
    _cells,
    place=190,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    published=_published,
)
