# SPDX-License-Identifier: GPL-2.0-only
"""The main job: the few cells that tell what the project is worth, in minutes.

They are cells of other experiments, and are shown as theirs.
"""

from collections.abc import Callable
from dataclasses import replace

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import PAGE_KB, Cell, Size
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.effort import Effort
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments.path_length import SMALL
from pagehaul.bench.serving import CLOSED

# A real machine: its memory bandwidth and cache lines set limits, which `plain` has not.
MODEL = "epyc-zen3"
CPUS = 16

TIERS = ("demotion", "promotion")

# The scene in three guests: from one to another the requests answered in it differ by a fifth.
_THRICE = Effort(3, 1, 1, 1, 1, 3600.0)


def experiments() -> tuple[Experiment, ...]:
    """Return the experiments with the cells that the main job measures of each."""
    redis = _some_of("workload-redis-drain", _is_migratepages)
    effort = (_THRICE, redis.machine.virtual[1])
    return (
        _some_of("scaling", lambda cell: not cell.shape.hugetlb),
        _some_of("policy", _is_small),
        _some_of("reasons", lambda cell: cell.reason in TIERS and cell.shape.folio_kb == PAGE_KB),
        replace(redis, machine=replace(redis.machine, virtual=effort)),
    )


def _some_of(name: str, wanted: Callable[[Cell], bool]) -> Experiment:
    """Return an experiment with some of its cells, on a machine of CPUS CPUs."""
    whole = EXPERIMENTS[name]

    def cells(size: Size) -> tuple[Cell, ...]:
        return tuple(cell for cell in whole.cells(size) if wanted(cell))

    return replace(whole, cells=cells, quick_cpus=(CPUS,))


def _is_small(cell: Cell) -> bool:
    """Whether a small move is one of the unmodified kernel, or left to Pagehaul's own choice."""
    if cell.shape.folio_kb != PAGE_KB or cell.shape.folios not in SMALL:
        return False
    return cell.kernel == "vanilla" or cell.settings == AUTOMATIC


def _is_migratepages(cell: Cell) -> bool:
    """Whether a scene is a drain by migratepages(8), as the kernels are without any setting."""
    scene = cell.scene
    return (
        scene is not None
        and scene.way == "migratepages"
        and cell.condition == CLOSED
        and not cell.settings.get("max_helpers")
        and (cell.kernel == "vanilla" or cell.method == "parallel")
    )
