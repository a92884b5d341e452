# SPDX-License-Identifier: GPL-2.0-only
"""A compiler at work with compound pages kept in the per-CPU lists: a table of Yoo, 2025."""

from collections.abc import Sequence
from statistics import fmean

from pagehaul.bench import published
from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES
from pagehaul.bench.kernbench import commands_file, sources, write_commands
from pagehaul.bench.machines.kinds import FAULTING
from pagehaul.bench.measures.faults import MEASURE as FAULTS
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.row import Row
from pagehaul.bench.views.fault_figures import (
    KEPT_HEADER,
    Lines,
    kept,
    kept_caption,
    line,
    quantity,
    view,
)


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


def _lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of the table."""
    body = []
    for pair in kept(rows):
        sizes = pair[0].condition
        condition = f"kernbench, {sizes}" + ("" if sizes == "16kB" else " THP")
        beside = published.by_kept_compound(condition)
        seen = [found for row in pair if (found := FAULTS.of(row))]
        figures = {
            "user": [[ns / 1e9 for ns in each.user_ns] for each in seen],
            "syst": [[ns / 1e9 for ns in _system_ns(each)] for each in seen],
            "elsp": [[ns / 1e9 for ns in each.ns] for each in seen],
        }
        for name, (base, other) in figures.items():
            body.append(line(sizes, name, (base, other), fmean, beside.get(f"{name}-24")))
    caption = kept_caption(
        f"Seconds, arithmetic means, with {rows[0].threads} compilers at once here, 24 there; what "
        "is compiled is a small part of the kernel here."
    )
    return caption, KEPT_HEADER, tuple(body)


def _system_ns(seen: Faults) -> list[float]:
    return [cpu - user for cpu, user in zip(seen.cpu_ns, seen.user_ns, strict=True)]


EXPERIMENT = Experiment(
    "kernbench",
    "Compiling with compound pages kept in the per-CPU lists",
    FAULTING,
    _cells,
    place=170,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    prepare=write_commands,
    quick_cpus=(2,),
    view=view(
        _lines,
        quantity("Elapsed time (below 1 is faster)", lambda seen: seen.ns),
        quantity("System time (below 1 is better)", _system_ns),
        quantity("User time (below 1 is better)", lambda seen: seen.user_ns),
    ),
)
