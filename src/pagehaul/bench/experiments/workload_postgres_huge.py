# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL at work while its shared buffers, in huge pages, move to another node."""

from pagehaul.bench import serving
from pagehaul.bench.machines import postgres
from pagehaul.bench.machines.kinds import DATABASE

EXPERIMENT = serving.experiment(
    "workload-postgres-huge",
    "PostgreSQL while its huge pages move",
    serving.drain("postgres", postgres.MB, huge=True),
    place=157,
    packages=(postgres.PACKAGE, "numactl"),
    kind=DATABASE,
)
