# SPDX-License-Identifier: GPL-2.0-only
"""A program of many threads at work while what it hardly uses goes to a slower tier."""

from pagehaul.bench import serving
from pagehaul.bench.machines.kinds import TIERED

EXPERIMENT = serving.experiment(
    "workload-threads-demotion",
    "A program of many threads while its cold memory is demoted",
    serving.tiers("demotion"),
    place=158,
    packages=("numactl",),
    kind=TIERED,
)
