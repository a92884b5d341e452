# SPDX-License-Identifier: GPL-2.0-only
"""Redis in fast memory beside a program in another cgroup whose memory is promoted."""

from pagehaul.bench import serving
from pagehaul.bench.cell import BALANCING, Scene
from pagehaul.bench.machines.kinds import FILLED

# Of the program's memory one half is slow, for which there is less room in fast memory.
_SCENE = Scene("promoter", "redis", BALANCING, mb=48, neighbour_mb=128, fast_mb=144, slow_mb=64)

EXPERIMENT = serving.experiment(
    "workload-two-programs",
    "Redis in fast memory beside a program whose memory is promoted",
    serving.balanced(_SCENE),
    place=165,
    kind=FILLED,
)
