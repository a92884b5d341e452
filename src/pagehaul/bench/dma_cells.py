# SPDX-License-Identifier: GPL-2.0-only
"""Cells of copies by DMA channels."""

from collections.abc import Iterable

from pagehaul.bench.cell import Cell, Shape, Size, optional
from pagehaul.bench.experiments import folio_size

# The caller is the only one that copies beside the channels, if anybody does.
CPUS = (1, 2, 4)
QUICK_CPUS = (2,)

QUICK_KB = (64, 2048)

# Channels of the experiments that compare with the CPU; so many are about as fast as it.
SOME_CHANNELS = 8
LIKE_CPU = 1

# Base pages of a batch: one of the default size is 2 MB, too few chunks for many channels.
SETTINGS = {"batch_pages": "8192"}


def by_size(size: Size) -> tuple[Shape, ...]:
    """Return shapes of one total and several sizes of folios."""
    total_kb = size.most_mb(folio_size.QUICK_TOTAL_MB, folio_size.FULL_TOTAL_MB) * 1024
    folio_kb = QUICK_KB if size.quick else folio_size.FOLIO_KB
    return size.fitting(Shape(kb, total_kb // kb) for kb in folio_kb)


def cells(shapes: Iterable[Shape], methods: Iterable[tuple[str, int]]) -> tuple[Cell, ...]:
    """For every shape: vanilla, and Pagehaul by (method, channels); left out without channels."""
    found = []
    for shape in shapes:
        found.append(Cell(shape, "vanilla", "serial"))
        found.append(Cell(shape, "pagehaul", "serial"))
        found += optional(
            Cell(shape, "pagehaul", method, channels=channels, settings=SETTINGS)
            for method, channels in methods
        )
    return tuple(found)


def hybrid_cells(size: Size) -> tuple[Cell, ...]:
    """Return cells of the CPU alone, of channels alone, and of both."""
    channels = (LIKE_CPU, SOME_CHANNELS)
    both = [(method, count) for count in channels for method in ("dma", "hybrid")]
    return cells(by_size(size), [("batch", 0), *both])
