# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL at work while its shared buffers move to another node."""

from pagehaul.bench import serving
from pagehaul.bench.machines import postgres
from pagehaul.bench.machines.kinds import DATABASE

# MiB of values. Each has a page of 8 KB of the table, with room for its next version.
_MB = 240

EXPERIMENT = serving.experiment(
    "workload-postgres-drain",
    "PostgreSQL while its memory moves",
    serving.drain("postgres", _MB),
    place=156,
    packages=(postgres.PACKAGE, "numactl"),
    kind=DATABASE,
)
