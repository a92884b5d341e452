# SPDX-License-Identifier: GPL-2.0-only
"""Random updates of a table that is larger than fast memory."""

from pagehaul.bench import serving
from pagehaul.bench.cell import BALANCING, Scene
from pagehaul.bench.machines.kinds import FILLED

# The half that becomes hot is partly in fast memory; the rest of it did not fit.
_SCENE = Scene("drain", "gups", BALANCING, mb=160, fast_mb=112)

EXPERIMENT = serving.experiment(
    "workload-gups",
    "Random updates of a table larger than fast memory",
    serving.balanced(_SCENE),
    place=161,
    packages=("numactl",),
    kind=FILLED,
)
