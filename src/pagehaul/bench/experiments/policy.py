# SPDX-License-Identifier: GPL-2.0-only
"""From one page to hundreds of MB: what the kernel chooses by itself beside each fixed choice.

The choice by itself is that of the kernel's defaults, which use other CPUs where there is enough to
do for them, and none for a small move. A fixed choice that uses other CPUs has to be forced upon
the kernel: the same estimate of what is faster would decide in it otherwise.
"""

from pagehaul.bench.cell import PAGE_KB, Cell, Shape, Size
from pagehaul.bench.choices import AUTOMATIC, copy_kb, forced
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL

QUICK = {4: (1, 8, 32, 128, 512, 2048, 16384)}
FULL = {4: (1, 8, 32, 128, 512, 2048, 8192, 65536), 64: (1, 2, 8, 32, 128, 4096), 2048: (1, 2, 128)}


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    cells = []
    for shape in size.fitting(shapes):
        cells += [
            Cell(shape, "vanilla", "serial"),
            Cell(shape, "pagehaul", "serial"),
            Cell(shape, "pagehaul", "batch"),
        ]
        cells += [
            Cell(shape, "pagehaul", method, count, settings=forced(shape, count))
            for method in ("threads", "parallel")
            for count in size.thread_counts()
            # Nobody can share a page.
            if count * PAGE_KB <= copy_kb(shape)
        ]
        most = max(size.thread_counts(), default=1)
        cells.append(Cell(shape, "pagehaul", "parallel", most, settings=AUTOMATIC))
    return tuple(cells)


EXPERIMENT = Experiment(
    "policy",
    "Small and large moves, by every method",
    PARALLEL,
    _cells,
    place=80,
    quick_cpus=(2, 16),
    about_losses=True,
)
