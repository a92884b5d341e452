# SPDX-License-Identifier: GPL-2.0-only
"""A hot set that would fill three quarters of a fast node, which is full of cold memory."""

from pagehaul.bench import serving
from pagehaul.bench.cell import BALANCING, Scene
from pagehaul.bench.machines.kinds import FILLED

# Half of the memory is hot, of which a third is in fast memory, beside all that is cold.
_SCENE = Scene("drain", "threads", BALANCING, mb=160, fast_mb=112, cold=2)

EXPERIMENT = serving.experiment(
    "workload-hotset",
    "A program whose hot memory has to take the place of cold memory",
    serving.balanced(_SCENE),
    place=163,
    packages=("numactl",),
    kind=FILLED,
)
