# SPDX-License-Identifier: GPL-2.0-only
"""Base pages faulted in and freed, by several threads: a table of Yoo, 2025."""

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES

THREADS = (1, 3, 5, 7, 12, 18, 24)
THREADS_PER_CPU = 2

QUICK_MB = 64
FULL_MB = 192


def _cells(size: Size) -> tuple[Cell, ...]:
    shape = Shape(4, (QUICK_MB if size.quick else FULL_MB) * 256)
    counts = [count for count in THREADS if count <= THREADS_PER_CPU * size.cpus]
    return tuple(
        Cell(shape, kernel, "faults", count, condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for count in counts
        for kernel in KERNELS
    )


EXPERIMENT = Experiment(
    "pft",
    "Page faults with compound pages kept in the per-CPU lists",
    "faults",
    _cells,
    place=160,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    quick_cpus=(4,),
)
