# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while the memory that it uses goes offline."""

from pagehaul.bench import serving

EXPERIMENT = serving.experiment(
    "workload-redis-offlining",
    "Redis while its memory goes offline",
    serving.evict("redis", "offlining"),
    place=153,
)
