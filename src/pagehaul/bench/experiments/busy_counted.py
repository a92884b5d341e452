# SPDX-License-Identifier: GPL-2.0-only
"""The busy cells on one CPU that counts its instructions.

There nothing decides but the scheduler of the guest, and whatever else runs on the host is in none
of the figures.
"""

from dataclasses import replace

from pagehaul.bench.cell import Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import folio_count
from pagehaul.bench.machines.kinds import BUSY_ICOUNT
from pagehaul.bench.measures.hog import MEASURE as HOG


def _cells(size: Size) -> tuple[Cell, ...]:
    shapes = [
        Shape(folio_kb, folios) for folio_kb, row in folio_count.FULL.items() for folios in row
    ]
    return tuple(
        HOG.ask(replace(cell, condition="busy"), size.cpus)
        for shape in size.fitting(shapes)
        for cell in (
            *compare_methods([shape], size, ("serial", "batch")),
            # As is the default; there is no idle CPU that could help.
            Cell(shape, "pagehaul", "parallel", 2),
        )
    )


EXPERIMENT = Experiment(
    "busy-counted",
    "Beside a hog on every CPU, in instructions",
    BUSY_ICOUNT,
    _cells,
    place=230,
    packages=("stress-ng",),
    on_request=True,
)
