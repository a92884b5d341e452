# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while its cpuset loses the node with its memory."""

from pagehaul.bench import serving
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import SERVING

EXPERIMENT = Experiment(
    "workload-redis-cpuset",
    "Redis while it loses a node of its cpuset",
    SERVING,
    serving.evict("redis", "cpuset"),
    place=152,
    packages=serving.PACKAGES,
    guest_only=True,
    on_request=True,
    cpus=(8, 16),
    quick_cpus=(16,),
)
