# SPDX-License-Identifier: GPL-2.0-only
"""A pool of threads beside a hog on every CPU: mtcopy, and the design of Yan, 2025, made of it.

Its threads get work whether their CPUs are idle or not, as workers of a workqueue do. The caller
waits for them, as was published, or copies as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pagehaul.bench import beside
from pagehaul.bench.cell import Cell, Size, powers_of_two
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import busy
from pagehaul.bench.labels import Table
from pagehaul.bench.machines.kinds import POOL
from pagehaul.bench.measures.hog import MEASURE as HOG
from pagehaul.bench.measures.hog import VIEW
from pagehaul.bench.row import Row

# The caller copies as well.
COPIES: Mapping[str, str] = {"vm.mt_page_copy": "2"}

# That of the workers of system_highpri_wq.
HIGH: Mapping[str, str] = {"nice.mtcopy": "-20"}

_LINES = {False: "here, as published", True: "here, the caller too"}


def _cells(size: Size) -> tuple[Cell, ...]:
    counts = (size.cpus,) if size.model else powers_of_two(1, size.cpus)
    cells: list[Cell] = []
    for shape in busy.shapes(size):
        cells.append(Cell(shape, "vanilla", "serial"))
        for settings in ({}, COPIES):
            for count in counts:
                pool = Cell(shape, "pagehaul", "pool", count, settings=settings)
                cells += [pool, replace(pool, settings={**settings, **HIGH})]
    return tuple(HOG.ask(replace(cell, condition="busy"), size.cpus) for cell in cells)


def _lines(rows: Sequence[Row], counts: Sequence[int]) -> list[tuple[str, ...]]:
    lines = []
    ours = [row for row in rows if row.kernel == "pagehaul"]
    for copies, name in _LINES.items():
        mine = [row for row in ours if (COPIES.items() <= row.settings.items()) == copies]
        ratios = {row.threads: row.vs_vanilla for row in sorted(mine, key=lambda row: row.cpus)}
        if ratios:
            lines.append((name, *(beside.ratio(ratios.get(count)) for count in counts)))
    return lines


def _published(rows: Sequence[Row]) -> Table:
    text = (
        "Published helpers are on system_unbound_wq (normal) and system_highpri_wq (high); threads "
        "of mtcopy have the priorities of their workers. As published, the caller waits for them."
    )
    return busy.published_beside(rows, HIGH, _lines, text)


EXPERIMENT = Experiment(
    "busy-pool",
    "A pool of threads beside a hog on every CPU",
    POOL,
    _cells,
    place=115,
    packages=("stress-ng",),
    on_request=True,
    quick_cpus=busy.QUICK_CPUS,
    # What it measures is not what Pagehaul does by default.
    view=replace(VIEW, apart=True),
    published=_published,
)
