# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while the memory of another cgroup moves."""

from pagehaul.bench import serving
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import SERVING

EXPERIMENT = Experiment(
    "workload-redis-neighbour",
    "Redis while a neighbour's memory moves",
    SERVING,
    serving.neighbour("redis"),
    place=151,
    packages=serving.PACKAGES,
    guest_only=True,
    on_request=True,
    cpus=(8, 16),
    quick_cpus=(16,),
)
