# SPDX-License-Identifier: GPL-2.0-only
"""Throughput by the number of folios: the tables of Yan, 2025, and table 2a of Garg, 2025."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import PMD_KB, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table, shape_label
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.row import Row

QUICK = {64: (32, 256, 1024), 2048: (1, 4, 16, 64)}
FULL = {64: (32, 256, 512, 768, 1024), 2048: (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024)}
# Garg, 2025, goes further than Yan. Few guests have memory for these.
LARGEST = (Shape(2048, 2048), Shape(2048, 8192))


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = QUICK if size.quick else FULL
    shapes = [Shape(folio_kb, folios) for folio_kb, row in counts.items() for folios in row]
    if not size.quick:
        shapes += LARGEST
    return compare_methods(size.fitting(shapes), size)


def _published(rows: Sequence[Row]) -> Table:
    counts = beside.counts(rows, beside.THREADS)
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in rows):
        ratios = published.by_folio_count(folio_kb)
        gbps = published.by_huge_folio_count("CPU, 1 thread") if folio_kb == PMD_KB else {}
        measured = {row.folios for row in rows if row.folio_kb == folio_kb}
        for folios in sorted(measured | {folios for folios, _ in ratios} | set(gbps)):
            label = shape_label(folio_kb, folios)
            mine = [row for row in rows if row.shape == (folio_kb, folios)]
            body += [(label, *line) for line in beside.measured_lines(mine, counts)]
            if any(key[0] == folios for key in ratios):
                texts = [beside.ratio(ratios.get((folios, count))) for count in counts]
                body.append((label, "published", *texts))
            if folios in gbps:
                texts = [beside.gbps(gbps[folios] if count == 1 else None) for count in counts]
                body.append((label, "published, GB/s", *texts))
    header = ("folios", "whose", *beside.heads(counts))
    caption = beside.caption("yan-2025", beside.OF_VANILLA)
    if any(row.folio_kb == PMD_KB for row in rows):
        caption += " " + beside.caption("garg-2025", "Figures in GB/s are of one thread.")
    return Table(beside.title(rows), caption, header, tuple(body))


EXPERIMENT = Experiment(
    "folio-count",
    "Throughput by number of folios",
    PARALLEL,
    _cells,
    place=30,
    quick_cpus=(8,),
    published=_published,
    published_ratios=published.by_folio_count,
)
