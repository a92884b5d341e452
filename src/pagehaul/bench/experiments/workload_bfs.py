# SPDX-License-Identifier: GPL-2.0-only
"""Breadth-first searches of a random graph that begins in slow memory."""

from pagehaul.bench import serving
from pagehaul.bench.cell import BALANCING, Scene
from pagehaul.bench.machines.kinds import FILLED

# All of it is in slow memory, and there is room for it in fast memory.
_SCENE = Scene("drain", "bfs", BALANCING, mb=96, fast_mb=160, slow_mb=96)

EXPERIMENT = serving.experiment(
    "workload-bfs",
    "Breadth-first searches of a graph that comes from slow memory",
    serving.balanced(_SCENE),
    place=162,
    packages=("numactl",),
    kind=FILLED,
)
