# SPDX-License-Identifier: GPL-2.0-only
"""Throughput by folio size for a constant total: the table of Garg, 2025."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.row import Row

FOLIO_KB = (4, 16, 32, 64, 128, 256, 512, 1024, 2048)
# On each of several machines.
VIRTUAL_QUICK_KB = (4, 64, 2048)
QUICK_TOTAL_MB = 32
FULL_TOTAL_MB = 1024


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB)
    # Whole folios of the largest size, so that the total is the same for all.
    total_kb = total_mb * 1024 // max(FOLIO_KB) * max(FOLIO_KB)
    sizes = VIRTUAL_QUICK_KB if size.quick and size.model else FOLIO_KB
    shapes = [Shape(folio_kb, total_kb // folio_kb) for folio_kb in sizes]
    return compare_methods(size.fitting(shapes), size)


def _published(rows: Sequence[Row]) -> Table:
    figures = published.by_folio_size()
    counts = beside.counts(rows, (count for _, count in figures))
    return beside.by_size(
        rows, figures, counts, "thr.", lambda mine: beside.measured_lines(mine, counts)
    )


EXPERIMENT = Experiment(
    "folio-size",
    "Throughput by folio size",
    PARALLEL,
    _cells,
    place=40,
    published=_published,
)
