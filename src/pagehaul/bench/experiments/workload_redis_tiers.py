# SPDX-License-Identifier: GPL-2.0-only
"""Redis with more data than fast memory has, of which a part is asked for most often."""

from pagehaul.bench import serving
from pagehaul.bench.cell import BALANCING, Scene
from pagehaul.bench.machines.kinds import FILLED

# A third of the values did not fit into fast memory.
_SCENE = Scene("drain", "redis", BALANCING, mb=120, fast_mb=96, zipf=True)

EXPERIMENT = serving.experiment(
    "workload-redis-tiers",
    "Redis with zipfian keys and more data than fast memory has",
    serving.balanced(_SCENE),
    place=164,
    kind=FILLED,
)
