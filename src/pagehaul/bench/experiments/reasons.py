# SPDX-License-Identifier: GPL-2.0-only
"""Memory that moves by other ways than move_pages(2), from and to a node that has no CPU."""

from dataclasses import replace

from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import DIES

QUICK_TOTAL_MB = 32
FULL_TOTAL_MB = 64
QUICK_METHODS = ("parallel",)
QUICK_CPUS = 2

# Nodes of the guest: with CPUs, and without, as of CXL memory.
NEAR, FAR = 0, 1

# From where to where the memory moves. Compaction leaves it on its node.
NODES = {
    "mbind": (NEAR, FAR),
    "migrate_pages": (NEAR, FAR),
    "demotion": (NEAR, FAR),
    "demotion_mglru": (NEAR, FAR),
    "promotion": (FAR, NEAR),
    "balancing": (FAR, NEAR),
    "cpuset": (NEAR, FAR),
    "offlining": (FAR, NEAR),
    "compaction": (FAR, NEAR),
}
# Compaction is about base pages.
FULL_KB = {reason: (4,) if reason == "compaction" else (4, 2048) for reason in NODES}
QUICK_KB = dict.fromkeys(NODES, (4,)) | dict.fromkeys(
    ("mbind", "migrate_pages", "demotion", "promotion"), (4, 2048)
)


def _cells(size: Size) -> tuple[Cell, ...]:
    quick = size.quick
    total_kb = size.most_mb(QUICK_TOTAL_MB, FULL_TOTAL_MB) * 1024
    methods: tuple[str, ...] = METHODS
    if quick:
        methods = QUICK_METHODS
    if quick and size.model is None:
        size = replace(size, cpus=min(size.cpus, QUICK_CPUS))
    cells: list[Cell] = []
    sizes = QUICK_KB if quick else FULL_KB
    for reason, nodes in NODES.items():
        shapes = [Shape(folio_kb, total_kb // folio_kb) for folio_kb in sizes[reason]]
        for cell in compare_methods(shapes, size, methods):
            cells.append(replace(cell, condition=reason, reason=reason, nodes=nodes, optional=True))
    return tuple(cells)


EXPERIMENT = Experiment(
    "reasons",
    "Memory that moves by other ways than move_pages",
    DIES,
    _cells,
    place=140,
    guest_only=True,
    quick_cpus=(8,),
)
