# SPDX-License-Identifier: GPL-2.0-only
"""Redis at work while the kernel makes huge pages for another program."""

from pagehaul.bench import serving
from pagehaul.bench.machines.kinds import DATABASE

EXPERIMENT = serving.experiment(
    "workload-redis-compaction",
    "Redis while another program wants huge pages",
    serving.compaction("redis"),
    place=160,
    kind=DATABASE,
)
