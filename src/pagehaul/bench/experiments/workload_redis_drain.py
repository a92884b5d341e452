# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while its memory moves to another node."""

from pagehaul.bench import serving
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import SERVING

EXPERIMENT = Experiment(
    "workload-redis-drain",
    "Redis while its memory moves",
    SERVING,
    serving.drain("redis"),
    place=150,
    packages=serving.PACKAGES,
    guest_only=True,
    on_request=True,
    cpus=(8, 16),
    quick_cpus=(16,),
)
