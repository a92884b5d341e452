# SPDX-License-Identifier: GPL-2.0-only
"""What the sizes of sets and of chunks are worth: the same cells with other ones.

The kernel for this, `judge`, has the size of a set in debugfs, which movebench sets like a knob.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.views import gains

KERNEL = "judge"
CPUS = (2, 8, 16)
MODELS = ("plain", "epyc-zen3")

_BASE = Shape(4, 16384)
_LARGE = Shape(64, 1024)
_HUGE = Shape(2048, 32)


@dataclass(frozen=True)
class Trial:
    """Cells, and the settings that change one thing in them."""

    cells: tuple[Cell, ...]
    changes: tuple[Mapping[str, str], ...]


def _ours(
    shape: Shape, method: str, threads: int = 1, settings: Mapping[str, str] | None = None
) -> Cell:
    return Cell(shape, KERNEL, method, threads, settings=settings or {})


def _trials(size: Size) -> Iterator[Trial]:
    most = size.cpus
    shapes = (_BASE, _LARGE, _HUGE)
    parallel = [_ours(shape, "parallel", most) for shape in shapes]
    copied = [_ours(shape, "threads", most) for shape in shapes]
    windows = tuple({"debug.set_folios": folios} for folios in ("1", "8", "16"))
    yield Trial((copied[0], copied[1], parallel[0]), windows)
    chunks = tuple({"chunk_kb": kb} for kb in ("32", "512"))
    yield Trial((copied[1], copied[2], parallel[2]), chunks)


def _cells(size: Size) -> tuple[Cell, ...]:
    """Each cell once by itself, and with each change."""
    found: list[Cell] = []
    for trial in _trials(size):
        for cell in trial.cells:
            if cell not in found:
                found.append(cell)
            for change in trial.changes:
                found.append(replace(cell, settings={**cell.settings, **change}))
    # Cells of a shape one after the other share its memory.
    order = list(dict.fromkeys((cell.condition, cell.shape) for cell in found))
    return tuple(sorted(found, key=lambda cell: order.index((cell.condition, cell.shape))))


EXPERIMENT = Experiment(
    "judge",
    "What each mechanism is worth",
    PARALLEL,
    _cells,
    place=250,
    guest_only=True,
    on_request=True,
    kernels=(KERNEL,),
    cpus=CPUS,
    quick_cpus=CPUS,
    models=MODELS,
    view=gains.VIEW,
)
