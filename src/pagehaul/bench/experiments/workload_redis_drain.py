# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while its memory moves to another node."""

from pagehaul.bench import serving

EXPERIMENT = serving.experiment(
    "workload-redis-drain", "Redis while its memory moves", serving.drain("redis"), place=150
)
