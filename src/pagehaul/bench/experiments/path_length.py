# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each page moved, on one CPU: the figure that no noise reaches."""

from pagehaul.bench.cell import BASE_PAGE, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import ICOUNT

QUICK_KB = (4, 64, 2048)
FULL_KB = (4, 16, 32, 64, 128, 256, 512, 1024, 2048)
QUICK_TOTAL_MB = 32
FULL_TOTAL_MB = 128

# Folios of one base page of the moves that must not pay for others being asked to help.
SMALL = (1, 8, 32)
SMALL_CPUS = 2


def _cells(size: Size) -> tuple[Cell, ...]:
    total_mb = QUICK_TOTAL_MB if size.quick else FULL_TOTAL_MB
    sizes = QUICK_KB if size.quick else FULL_KB
    shapes = [Shape(folio_kb, total_mb * 1024 // folio_kb) for folio_kb in sizes]
    return compare_methods(size.fitting(shapes), size) + _small_moves()


def _small_moves() -> tuple[Cell, ...]:
    """Small moves, with the kernel's own choice as well: what it costs to decide against help."""
    return tuple(
        cell
        for folios in SMALL
        for shape in [Shape(BASE_PAGE // 1024, folios)]
        for cell in (
            Cell(shape, "vanilla", "serial"),
            Cell(shape, "pagehaul", "serial"),
            Cell(shape, "pagehaul", "batch"),
            Cell(shape, "pagehaul", "parallel", SMALL_CPUS),
        )
    )


EXPERIMENT = Experiment(
    "path-length",
    "Instructions per page",
    ICOUNT,
    _cells,
    place=10,
    about_losses=True,
)
