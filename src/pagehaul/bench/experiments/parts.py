# SPDX-License-Identifier: GPL-2.0-only
"""What each part of the series gives on top of those before it: a kernel of each of them."""

from pagehaul.bench import captions
from pagehaul.bench.cell import Cell, Shape, Size, powers_of_two
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments.scaling import FOLIO_KB, HUGETLB
from pagehaul.bench.labels import Table, case_label, table_of
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import SPEED
from pagehaul.bench.row import PARTS, Row
from pagehaul.bench.view import View

_MB = 64


def _cells(size: Size) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for folio_kb, hugetlb in (*((kb, False) for kb in FOLIO_KB), (2048, True)):
        shape = Shape(folio_kb, _MB * 1024 // folio_kb, hugetlb=hugetlb)
        condition = HUGETLB if hugetlb else ""
        cells.append(Cell(shape, "vanilla", "serial", condition=condition))
        for kernel in (*PARTS, "pagehaul"):
            # Before there are helpers all counts are the same.
            counts = (1,) if kernel == PARTS[0] else powers_of_two(1, size.cpus)
            cells += [
                Cell(shape, kernel, "parallel", count, condition=condition) for count in counts
            ]
    return tuple(cells)


def _table(part: Part) -> Table:
    cases: dict[tuple[str, int], dict[str, Row]] = {}
    for row in sorted(part.rows, key=lambda row: row.threads):
        cases.setdefault((case_label(row), row.threads), {})[row.kernel] = row
    # The cells keep the order of the cases.
    order = list(dict.fromkeys(case_label(row) for row in part.rows))
    lines = []
    for (case, cpus), rows in sorted(cases.items(), key=lambda item: order.index(item[0][0])):
        line = {"folios": case, "CPUs": f"{cpus}"}
        for kernel in ("vanilla", *PARTS, "pagehaul"):
            line[kernel] = _speed(rows.get(kernel))
        lines.append(line)
    caption = (
        "vanilla: GB/s of the unmodified kernel. Others: speed by that, of kernels with the parts "
        "of the series up to the one named; pagehaul has all of them. CPUs: the caller, and those "
        f"that may help it. {captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


def _speed(row: Row | None) -> str:
    if row is None:
        return ""
    mark = "" if row.repeats else captions.MARK
    if row.kernel == "vanilla":
        return f"{row.median_gbps:.2f}{mark}"
    return f"{row.vs_vanilla:.2f}x{mark}"


EXPERIMENT = Experiment(
    "parts",
    "Each part of the series, on top of those before it",
    PARALLEL,
    _cells,
    place=25,
    kernels=PARTS,
    on_request=True,
    cpus=(2, 8, 16, 32),
    quick_cpus=(16,),
    models=("plain", "epyc-zen3"),
    view=View(_table, (SPEED,)),
)
