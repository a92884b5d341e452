# SPDX-License-Identifier: GPL-2.0-only
"""memcached at work while its memory moves to another node."""

from pagehaul.bench import serving

EXPERIMENT = serving.experiment(
    "workload-memcached-drain",
    "memcached while its memory moves",
    serving.drain("memcached"),
    place=154,
    packages=("memcached", "numactl"),
)
