# SPDX-License-Identifier: GPL-2.0-only
"""Helpers on the node that memory leaves, or where it goes: an open question of Garg, 2025.

Where that is the caller's node, they are near the caller. The kernel prefers the target.
"""

from dataclasses import replace

from pagehaul.bench.cell import Cell, Shape, Size, powers_of_two
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL

FOLIO_KB = (4, 64, 2048)
QUICK_KB = (4, 2048)
TOTAL_MB = 64, 256

NODES = ("source", "target")
METHODS = ("threads", "parallel")
QUICK_METHODS = ("parallel",)


def _cells(size: Size) -> tuple[Cell, ...]:
    total_kb = size.most_mb(*TOTAL_MB) * 1024
    sizes = QUICK_KB if size.quick else FOLIO_KB
    methods = QUICK_METHODS if size.quick else METHODS
    # No more than one node has.
    half = size.cpus // 2
    counts = (half,) if size.model else powers_of_two(2, half)
    cells: list[Cell] = []
    for folio_kb in sizes:
        shape = Shape(folio_kb, total_kb // folio_kb)
        for caller in NODES:
            found = [Cell(shape, "vanilla", "serial")]
            found += [
                Cell(shape, "pagehaul", method, count, helpers=node)
                for method in methods
                for count in counts
                if count > 1
                for node in NODES
            ]
            condition = f"caller on the {caller}"
            cells += [replace(cell, caller=caller, condition=condition) for cell in found]
    return tuple(cells)


EXPERIMENT = Experiment(
    "helper-node",
    "Helpers on the node that memory leaves, or where it goes",
    PARALLEL,
    _cells,
    place=135,
    cpus=(4, 8, 16),
    quick_cpus=(8,),
)
