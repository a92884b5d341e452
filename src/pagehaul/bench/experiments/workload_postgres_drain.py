# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL at work while its shared buffers move to another node."""

from pagehaul.bench import serving
from pagehaul.bench.machines import postgres
from pagehaul.bench.machines.kinds import DATABASE

EXPERIMENT = serving.experiment(
    "workload-postgres-drain",
    "PostgreSQL while its memory moves",
    serving.drain("postgres", postgres.MB),
    place=156,
    packages=(postgres.PACKAGE, "numactl"),
    kind=DATABASE,
)
