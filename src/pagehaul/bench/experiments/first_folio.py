# SPDX-License-Identifier: GPL-2.0-only
"""The downside of batching: until when the first, and the last, folio of a move cannot be used.

A batch is unmapped as a whole, and with Pagehaul copied as a whole, before its first folio is
mapped again. The default of batch_pages is judged by this table.
"""

from pagehaul.bench.cell import BASE_PAGE, METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measures.remap import MEASURE as REMAP

QUICK = {4: (32, 1024), 2048: (16,)}
QUICK_METHODS = ("batch", "parallel")
FULL = dict.fromkeys((4, 2048), tuple(1 << n for n in range(11)))

# Base pages in a batch: the kernel's default, and what is tried besides, up to what it allows.
DEFAULT_BATCH = 512
QUICK_BATCHES = (8192,)
FULL_BATCHES = (2048, 8192, 32768)


def _larger_batches(shape: Shape, size: Size) -> tuple[Cell, ...]:
    """Cells with larger batches, where they make a difference."""
    pages = shape.bytes // BASE_PAGE
    threads = max(size.thread_counts(), default=1)
    cells = []
    smaller = DEFAULT_BATCH
    for batch in QUICK_BATCHES if size.quick else FULL_BATCHES:
        if pages > smaller:
            settings = {"batch_pages": str(batch)}
            cells.append(Cell(shape, "pagehaul", "batch", settings=settings))
            if threads > 1:
                cells.append(Cell(shape, "pagehaul", "parallel", threads, settings=settings))
        smaller = batch
    return tuple(cells)


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    methods = QUICK_METHODS if size.quick else METHODS
    cells: list[Cell] = []
    for shape in size.fitting(shapes):
        cells += [*compare_methods([shape], size, methods), *_larger_batches(shape, size)]
    return tuple(REMAP.ask(cell) for cell in cells)


EXPERIMENT = Experiment(
    "first-folio",
    "Until the first and the last folio are accessible again",
    PARALLEL,
    _cells,
    place=100,
    quick_cpus=(8,),
)
