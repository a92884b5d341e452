# SPDX-License-Identifier: GPL-2.0-only
"""Helpers spread over the last-level caches, or one cache filled first: the table of Garg, 2025."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table, shape_label
from pagehaul.bench.machines.kinds import DIES
from pagehaul.bench.row import Row

QUICK = (Shape(2048, 32),)
FULL = (Shape(4, 65536), Shape(2048, 256))

PLACEMENTS = ("spread", "fill")


def _cells(size: Size) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for shape in size.fitting(QUICK if size.quick else FULL):
        cells += [Cell(shape, "vanilla", "serial"), Cell(shape, "pagehaul", "serial")]
        # Half of them, so that there is a choice, and all.
        some = (size.cpus // 2, size.cpus) if size.model else size.thread_counts()
        for count in (count for count in some if count > 1):
            cells += [
                Cell(shape, "pagehaul", "parallel", count, settings={"placement": placement})
                for placement in PLACEMENTS
            ]
    return tuple(cells)


def _published(rows: Sequence[Row]) -> Table:
    figures = published.by_placement()
    placed = [row for row in rows if "placement" in row.settings]
    placed.sort(key=lambda row: row.cpus)
    ratios = {(row.shape, row.settings["placement"], row.threads): row.vs_vanilla for row in placed}
    shapes = list(dict.fromkeys(row.shape for row in placed))
    body = []
    for threads in sorted({row.threads for row in placed} | {count for _, count in figures}):
        line = [f"{threads}"]
        for shape in shapes:
            line += [
                beside.ratio(ratios.get((shape, placement, threads))) for placement in PLACEMENTS
            ]
        line += [beside.gbps(figures.get((placement, threads))) for placement in PLACEMENTS]
        body.append(tuple(line))
    header = (
        "CPUs",
        *(f"{shape_label(*shape)}, {placement}" for shape in shapes for placement in PLACEMENTS),
        *(f"published, {placement}, GB/s" for placement in PLACEMENTS),
    )
    caption = beside.caption(
        "garg-2025", "Measured: ratios to vanilla. Published: GB/s by the number of copy threads."
    )
    return Table(beside.title(rows), caption, header, tuple(body))


EXPERIMENT = Experiment(
    "placement",
    "Helpers spread over caches, or in one first",
    DIES,
    _cells,
    place=130,
    cpus=(4, 8, 16),
    quick_cpus=(8,),
    published=_published,
)
