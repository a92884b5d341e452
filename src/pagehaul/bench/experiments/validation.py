# SPDX-License-Identifier: GPL-2.0-only
"""Published tables again, on models of the machines that they were measured on.

Pagehaul's kernel does what the kernels of these tables did: CPUs or DMA channels share the copy of
a batch, and nothing else (`parallel_batches` 0), and each of them has a part of it. Their batches
were larger than ours. Those of Yan, 2025, held all folios of a call, up to 512 MB, those of Garg,
2025, 512 folios of whatever size. Here a batch holds as many base pages as the knob allows, which
are 128 MB; and whatever its size, the kernel copies 64 folios of it at a time.
"""

from collections.abc import Iterable, Iterator, Mapping

from pagehaul.bench.cell import PAGE_KB, PMD_KB, Cell, Shape, Size
from pagehaul.bench.choices import copy_kb, forced
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import folio_count, folio_size
from pagehaul.bench.machines.kinds import DMA
from pagehaul.bench.views import validation
from pagehaul.guest import models

GRACE, ZEN3 = "grace", "epyc-zen3"

CPUS = (32,)
QUICK_CPUS = (32,)
THREADS = (1, 2, 4, 8, 16, 32)
CHANNELS = (1, 2, 4, 8, 16)
QUICK_COUNTS = (1, 4, 16)

QUICK_FOLIOS = {64: (256, 1024), 2048: (4, 64)}
QUICK_KB = (4, 64, 2048)
TOTAL_MB = 64, 1024

MAX_BATCH_PAGES = 32768
_BATCH_FOLIOS = 512
_MIN_BATCH_PAGES = 512

# Most KiB of a chunk for a channel.


def _batch(folios: int, shape: Shape) -> dict[str, str]:
    """Return the setting for batches of so many folios, as far as the kernel allows it."""
    pages = min(MAX_BATCH_PAGES, max(_MIN_BATCH_PAGES, folios * shape.folio_kb // PAGE_KB))
    return {"batch_pages": str(pages)}


def _by_threads(
    shape: Shape, counts: Iterable[int], batch: Mapping[str, str], size: Size
) -> Iterator[Cell]:
    for count in counts:
        # Nobody can share a page.
        if count <= size.cpus and count * PAGE_KB <= copy_kb(shape):
            settings = {**forced(shape, count), **batch}
            yield Cell(shape, "pagehaul", "threads", count, settings=settings)


def _by_channels(
    shape: Shape, counts: Iterable[int], batch: Mapping[str, str], page_ns: int
) -> Iterator[Cell]:
    for count in counts:
        settings = {
            **batch,
            # Each folio was one transfer, although its neighbour came next.
            "module.softdma/parameters/seg_kb": str(shape.folio_kb),
            "module.softdma/parameters/page_ns": str(page_ns if shape.folio_kb < PMD_KB else 0),
            # Channels learn that when they are requested.
            "module.dcbm/parameters/devices": "any",
        }
        yield Cell(shape, "pagehaul", "dma", channels=count, settings=settings)


def _grace(size: Size) -> Iterator[Cell]:
    counts = QUICK_FOLIOS if size.quick else folio_count.FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    for shape in size.fitting(shapes):
        if not size.quick:
            yield Cell(shape, "vanilla", "serial")
        threads = QUICK_COUNTS if size.quick else THREADS
        yield from _by_threads(shape, threads, _batch(shape.folios, shape), size)


def _zen3(size: Size) -> Iterator[Cell]:
    total_kb = size.most_mb(*TOTAL_MB) * 1024
    sizes = QUICK_KB if size.quick else folio_size.FOLIO_KB
    for shape in size.fitting(Shape(folio_kb, total_kb // folio_kb) for folio_kb in sizes):
        batch = _batch(_BATCH_FOLIOS, shape)
        yield from _by_threads(shape, QUICK_COUNTS if size.quick else THREADS, batch, size)
        counts = QUICK_COUNTS if size.quick else CHANNELS
        yield from _by_channels(shape, counts, batch, models.load(ZEN3).channel_page_ns)


def _cells(size: Size) -> tuple[Cell, ...]:
    return tuple({GRACE: _grace, ZEN3: _zen3}[size.model or GRACE](size))


EXPERIMENT = Experiment(
    "validation",
    "Published ratios beside those of the machine models",
    DMA,
    _cells,
    place=240,
    guest_only=True,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    models=(GRACE, ZEN3),
    view=validation.VIEW,
)
