# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each page faulted in and freed."""

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES

TOTAL_MB = 32


def _cells(size: Size) -> tuple[Cell, ...]:
    del size
    shape = Shape(4, TOTAL_MB * 256)
    return tuple(
        Cell(shape, kernel, "faults", condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for kernel in KERNELS
    )


EXPERIMENT = Experiment(
    "pft-path-length",
    "Instructions for each page faulted in and freed",
    "fault-icount",
    _cells,
    place=220,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
)
