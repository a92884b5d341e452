# SPDX-License-Identifier: GPL-2.0-only
"""A program of many threads at work while its memory moves to another node."""

from pagehaul.bench import serving

EXPERIMENT = serving.experiment(
    "workload-threads-drain",
    "A program of many threads while its memory moves",
    serving.drain("threads"),
    place=155,
    packages=("numactl",),
)
