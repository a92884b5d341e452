# SPDX-License-Identifier: GPL-2.0-only
"""A program of many threads at work while what it uses comes back from a slower tier."""

from pagehaul.bench import serving
from pagehaul.bench.machines.kinds import TIERED

EXPERIMENT = serving.experiment(
    "workload-threads-promotion",
    "A program of many threads while its hot memory is promoted",
    serving.tiers("promotion"),
    place=159,
    packages=("numactl",),
    kind=TIERED,
)
