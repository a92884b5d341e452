# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while the memory of another cgroup moves."""

from pagehaul.bench import serving
from pagehaul.bench.machines.kinds import NEIGHBOURS

EXPERIMENT = serving.experiment(
    "workload-redis-neighbour",
    "Redis while a neighbour's memory moves",
    serving.neighbour("redis"),
    place=151,
    kind=NEIGHBOURS,
)
