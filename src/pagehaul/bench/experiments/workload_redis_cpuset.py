# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while its cpuset loses the node with its memory."""

from pagehaul.bench import serving

EXPERIMENT = serving.experiment(
    "workload-redis-cpuset",
    "Redis while it loses a node of its cpuset",
    serving.evict("redis", "cpuset"),
    place=152,
)
