# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while the memory that it uses goes offline."""

from pagehaul.bench import serving
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import SERVING

EXPERIMENT = Experiment(
    "workload-redis-offlining",
    "Redis while its memory goes offline",
    SERVING,
    serving.evict("redis", "offlining"),
    place=153,
    packages=serving.PACKAGES,
    guest_only=True,
    on_request=True,
    cpus=(8, 16),
    quick_cpus=(16,),
)
