# SPDX-License-Identifier: GPL-2.0-only
"""A hog on every CPU: the busy tables of Yan, 2025, and what the hogs lose while memory moves."""

from collections.abc import Mapping
from dataclasses import replace

from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import folio_count

QUICK = {64: (1024,), 2048: (32,)}
QUICK_METHODS = ("parallel",)
# On each of them a hog runs while memory moves, and takes the host's time.
QUICK_CPUS = (4,)

# What is tried besides the kernel's own settings: helpers on CPUs that are not idle.
FURTHER_SETTINGS: tuple[Mapping[str, str], ...] = ({"priority": "high"},)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else folio_count.FULL
    methods = QUICK_METHODS if size.quick else METHODS
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    cells: list[Cell] = []
    for shape in size.fitting(shapes):
        compared = compare_methods([shape], size, methods)
        compared += tuple(
            replace(cell, settings=settings)
            for settings in FURTHER_SETTINGS
            for cell in compared
            if cell.method in ("threads", "parallel")
        )
        # All CPUs of an idle machine help, whatever their priority.
        cells += [replace(cell, condition="idle") for cell in compared if not cell.settings]
        cells += [replace(cell, condition="busy", hogs=size.cpus) for cell in compared]
    return tuple(cells)


EXPERIMENT = Experiment(
    "busy",
    "Beside a hog on every CPU, and what it loses",
    "parallel",
    _cells,
    place=110,
    packages=("stress-ng",),
    quick_cpus=QUICK_CPUS,
)
