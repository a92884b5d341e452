# SPDX-License-Identifier: GPL-2.0-only
"""A compiler at work with compound pages kept in the per-CPU lists: a table of Yoo, 2025."""

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES
from pagehaul.bench.kernbench import commands_file, sources, write_commands


def _cells(size: Size) -> tuple[Cell, ...]:
    shape = Shape(4, len(sources(size.quick)))
    file = commands_file(size.quick)
    return tuple(
        Cell(
            shape,
            kernel,
            "faults",
            size.cpus,
            condition=name,
            load=Load("compile", thp=thp, commands=file),
        )
        for name, thp in SIZES.items()
        for kernel in KERNELS
    )


EXPERIMENT = Experiment(
    "kernbench",
    "Compiling with compound pages kept in the per-CPU lists",
    "faults",
    _cells,
    place=170,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    prepare=write_commands,
    quick_cpus=(2,),
)
