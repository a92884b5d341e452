# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each page faulted in and freed."""

from collections.abc import Sequence
from dataclasses import replace

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES
from pagehaul.bench.machines.kinds import FAULT_ICOUNT
from pagehaul.bench.measures.instructions import INSTRUCTIONS as QUANTITY
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.row import Row
from pagehaul.bench.views.fault_figures import KEPT_BY, Lines, change, kept, kept_base, view

TOTAL_MB = 32


def _cells(size: Size) -> tuple[Cell, ...]:
    del size
    shape = Shape(4, TOTAL_MB * 256)
    return tuple(
        Cell(shape, kernel, "faults", condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for kernel in KERNELS
    )


def _lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of the table."""
    body = []
    for base, other in kept(rows):
        counts = (INSTRUCTIONS.of(base), INSTRUCTIONS.of(other))
        if counts[0] is None or counts[1] is None:
            continue
        body.append(
            (
                base.condition,
                f"{counts[0]:,.1f}",
                f"{counts[1]:,.1f}",
                f"{change(counts[0], counts[1]):+.2f}%",
            )
        )
    header = ("sizes", "base", "kept compound", "change")
    caption = (
        "Instructions for each base page of 4 KB that is faulted in, written to once and freed, "
        "median, counted on one CPU at one instruction a nanosecond."
    )
    return caption, header, tuple(body)


EXPERIMENT = Experiment(
    "pft-path-length",
    "Instructions for each page faulted in and freed",
    FAULT_ICOUNT,
    _cells,
    place=220,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    view=view(_lines, replace(QUANTITY, curve=False, base=kept_base, by=KEPT_BY)),
)
