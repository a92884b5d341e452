# SPDX-License-Identifier: GPL-2.0-only
"""A hog on every CPU: the busy tables of Yan, 2025, and what the hogs lose while memory moves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pagehaul.bench import beside, published
from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import folio_count
from pagehaul.bench.labels import Table, shape_label
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measures.hog import MEASURE as HOG
from pagehaul.bench.row import Row

QUICK = {64: (1024,), 2048: (32,)}
QUICK_METHODS = ("parallel",)
# On each of them a hog runs while memory moves, and takes the host's time.
QUICK_CPUS = (4,)

# What is tried besides the kernel's own settings: helpers on CPUs that are not idle.
HIGH: Mapping[str, str] = {"priority": "high"}


def shapes(size: Size) -> tuple[Shape, ...]:
    """Return the shapes that were published of busy machines, or some of them."""
    counts = QUICK if size.quick else folio_count.FULL
    return size.fitting(Shape(folio_kb, n) for folio_kb, row in counts.items() for n in row)


def _cells(size: Size) -> tuple[Cell, ...]:
    methods = QUICK_METHODS if size.quick else METHODS
    cells: list[Cell] = []
    for shape in shapes(size):
        compared = compare_methods([shape], size, methods)
        compared += tuple(
            replace(cell, settings=HIGH)
            for cell in compared
            if cell.method in ("threads", "parallel")
        )
        # All CPUs of an idle machine help, whatever their priority.
        cells += [replace(cell, condition="idle") for cell in compared if not cell.settings]
        cells += [HOG.ask(replace(cell, condition="busy"), size.cpus) for cell in compared]
    return tuple(cells)


def published_beside(
    rows: Sequence[Row],
    high: Mapping[str, str],
    measured_lines: Callable[[Sequence[Row], Sequence[int]], list[tuple[str, ...]]],
    text: str,
) -> Table:
    """Return the busy tables of Yan, 2025, beside the lines that are made of measured rows.

    Rows with the settings `high` stand beside the table of system_highpri_wq; text is for the
    caption.
    """
    busy = [row for row in rows if row.condition == "busy"]
    by_priority: dict[str, list[Row]] = {"normal": [], "high": []}
    for row in busy:
        by_priority["high" if high.items() <= row.settings.items() else "normal"].append(row)
    counts = beside.counts(busy, beside.THREADS)
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in busy):
        for priority, of_priority in by_priority.items():
            ratios = published.by_folio_count(folio_kb, published.BUSY[priority])
            folio_counts = {row.folios for row in busy if row.folio_kb == folio_kb}
            for folios in sorted(folio_counts | {folios for folios, _ in ratios}):
                key = (shape_label(folio_kb, folios), priority)
                mine = [row for row in of_priority if row.shape == (folio_kb, folios)]
                body += [(*key, *line) for line in measured_lines(mine, counts)]
                if any(pair[0] == folios for pair in ratios):
                    texts = [beside.ratio(ratios.get((folios, count))) for count in counts]
                    body.append((*key, "published", *texts))
    text = f"On busy machines. {beside.OF_VANILLA} {text}"
    header = ("folios", "priority", "whose", *beside.heads(counts))
    return Table(beside.title(rows), beside.caption("yan-2025", text), header, tuple(body))


def _published(rows: Sequence[Row]) -> Table:
    text = "Helpers are on system_unbound_wq (normal) and system_highpri_wq (high)."
    return published_beside(rows, HIGH, beside.measured_lines, text)


EXPERIMENT = Experiment(
    "busy",
    "Beside a hog on every CPU, and what it loses",
    PARALLEL,
    _cells,
    place=110,
    packages=("stress-ng",),
    quick_cpus=QUICK_CPUS,
    published=_published,
)
