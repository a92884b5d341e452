# SPDX-License-Identifier: GPL-2.0-only
"""From one page to hundreds of MB: what the kernel chooses by itself beside each fixed choice.

The choice by itself is that of the kernel's defaults, which use other CPUs where there is enough to
do for them, and none for a small move. A fixed choice that uses other CPUs has to be forced upon
the kernel: the same estimate of what is faster would decide in it otherwise.
"""

from collections.abc import Mapping

from pagehaul.bench.cell import PAGE_KB, Cell, Shape, Size
from pagehaul.bench.experiment import Experiment

QUICK = {4: (1, 8, 32, 128, 512, 2048, 16384)}
FULL = {4: (1, 8, 32, 128, 512, 2048, 8192, 65536), 64: (1, 2, 8, 32, 128, 4096), 2048: (1, 2, 128)}

# CPUs are asked however little there is to do for them. The sysctl is enough for that, and the knob
# says the same of copies.
FORCED: Mapping[str, str] = {"vm.mt_page_copy": "1", "min_helper_kb": "0"}
# The kernel decides: its defaults, which a machine that is measured need not have.
_DEFAULT_CHUNK_KB = 128
AUTOMATIC: Mapping[str, str] = {
    "vm.mt_page_copy": "2",
    "min_helper_kb": "auto",
    "chunk_kb": str(_DEFAULT_CHUNK_KB),
}

# What the kernel copies at a time is no more than so many folios, and no more than a batch.
_COPY_FOLIOS = 64
_BATCH_KB = 2048


def copy_kb(shape: Shape) -> int:
    """Return how much of a shape the kernel copies at a time, in KiB."""
    return min(shape.bytes // 1024, shape.folio_kb * _COPY_FOLIOS, _BATCH_KB)


def forced(shape: Shape, threads: int) -> dict[str, str]:
    """Return the settings that make so many CPUs be asked to help with a shape.

    No more of them are asked than there are chunks, of which there must be enough.
    """
    share_kb = copy_kb(shape) // threads // PAGE_KB * PAGE_KB
    return {**FORCED, "chunk_kb": str(min(_DEFAULT_CHUNK_KB, share_kb))}


def is_forced(settings: Mapping[str, str]) -> bool:
    """Whether these are settings of forced()."""
    return FORCED.items() <= settings.items()


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
    "policy", "Small and large moves, by every method", "parallel", _cells, quick_cpus=(2, 16)
)
