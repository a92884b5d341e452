# SPDX-License-Identifier: GPL-2.0-only
"""How much of the memory moves that the kernel moves by itself."""

import statistics

from pagehaul.bench import captions
from pagehaul.bench.cell import BASE_PAGE
from pagehaul.bench.labels import Table, shape_label, table_of
from pagehaul.bench.measure import Measure, Observed
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import SPEED
from pagehaul.bench.table_cells import case_cells, method_cell, throughput, times_cells
from pagehaul.bench.view import View


def _collect(observed: Observed) -> float | None:
    """Return base pages that one move moved, median; of other moves it is always all of them."""
    if not observed.cell.reason:
        return None
    pages = [moved // BASE_PAGE / moves for moves, _, _, moved in observed.repetitions()]
    return float(statistics.median(pages))


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row in rows:
        moved = MEASURE.of(row)
        if moved is None:
            continue
        ms = moved * BASE_PAGE / row.median_gbps / 1e6
        lines.append(
            {
                "reason": row.condition,
                **case_cells(row, rows, shape_label(*row.shape)),
                **method_cell(row),
                **times_cells(row, len(row.gbps)),
                "pages moved": f"{moved:,.0f} of {row.bytes // BASE_PAGE:,}",
                "ms": f"{ms:,.1f}",
                "speed": throughput(row, rows),
            }
        )
    caption = (
        "Memory that the kernel moves by itself: base pages of it that moved, and the time that "
        "they took, medians. Speed: vanilla's in GB/s, the others' by vanilla's. "
        f"{captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


MEASURE = Measure("pages_moved", float, 40, _collect, view=View(_table, (SPEED,)))
