# SPDX-License-Identifier: GPL-2.0-only
"""The two measurements of Khandual and Yan, 2017: 400 MB as base pages and as huge pages."""

from collections.abc import Sequence

from pagehaul.bench import beside, published
from pagehaul.bench.cell import METHODS, Cell, Shape, Size, compare_methods
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table, column_label, column_of, columns
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.row import Row

SHAPES = (Shape(4, 100_000), Shape(2048, 195))
# Nothing else moves so much.
QUICK_METHODS = ("serial", "parallel")


def _cells(size: Size) -> tuple[Cell, ...]:
    methods = QUICK_METHODS if size.quick else METHODS
    return compare_methods(size.fitting(SHAPES), size, methods)


def _published(rows: Sequence[Row]) -> Table:
    names = {"100000 normal pages": (4, 100_000), "195 huge pages": (2048, 195)}
    figures = published.classic()
    most = max((row.cpus for row in rows), default=0)
    largest = [row for row in rows if row.cpus == most]
    body = []
    for name, shape in names.items():
        cells = {column_of(row): row.vs_vanilla for row in largest if row.shape == shape}
        for head in columns(largest):
            if head.kernel == "pagehaul" and head.method != "serial" and head in cells:
                body.append((name, f"here, {column_label(head)}", beside.ratio(cells[head])))
        for (row_name, condition), (gbps, ratio) in figures.items():
            if row_name == name:
                text = f"{gbps:.2f} GB/s" if condition == "Vanilla" else beside.ratio(ratio)
                body.append((name, f"published, {condition}", text))
    header = ("", "whose", "speed")
    return Table(
        beside.title(rows), beside.caption("khandual-2017", beside.OF_VANILLA), header, tuple(body)
    )


EXPERIMENT = Experiment(
    "classic",
    "100,000 base pages and 195 huge pages",
    PARALLEL,
    _cells,
    place=50,
    quick_cpus=(4,),
    published=_published,
)
