# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each base page of 4 KiB, on one CPU that counts them."""

import statistics
from collections.abc import Sequence

from pagehaul.bench import captions
from pagehaul.bench.cell import BASE_PAGE
from pagehaul.bench.labels import Table, column_label, column_of, columns, shape_label
from pagehaul.bench.measure import Measure, Observed
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Figure, Quantity, beside
from pagehaul.bench.row import DETERMINISM, Row, find_baseline, is_baseline
from pagehaul.bench.view import View


def _collect(observed: Observed) -> float | None:
    # One nanosecond is one instruction in these machines, which do nothing besides.
    if not observed.counting:
        return None
    pages = observed.cell.shape.bytes // BASE_PAGE
    return statistics.median(ns / moves for moves, ns, _, _ in observed.repetitions()) / pages


def path_ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """Return the instructions of `row` by those of its baseline, None where either has none."""
    baseline = find_baseline(row, rows)
    if baseline is None:
        return None
    ours, base = MEASURE.of(row), MEASURE.of(baseline)
    return ours / base if ours and base else None


def _table(part: Part) -> Table:
    rows = part.rows
    heads = columns(rows)
    cells = {(row.shape, column_of(row)): row for row in rows}
    body = []
    for shape in dict.fromkeys(row.shape for row in rows):
        of_shape = [row for row in rows if row.shape == shape]
        line = [shape_label(*shape)]
        line += [_instructions(cells.get((shape, head)), rows) for head in heads]
        baseline = next((row for row in of_shape if is_baseline(row, rows)), None)
        per_page = MEASURE.of(baseline) if baseline is not None else None
        line.append(f"{per_page * (shape[0] // 4):,.0f}" if per_page is not None else "")
        within = sum(row.within(DETERMINISM) for row in of_shape)
        line.append(f"{within} of {sum(len(row.gbps) for row in of_shape)}")
        body.append(tuple(line))
    header = ("folios", *map(column_label, heads), "vanilla, a folio", f"within {DETERMINISM:.1%}")
    caption = (
        "Instructions for each base page of 4 KB (and by vanilla's), median, counted on one CPU at "
        "one instruction a nanosecond; lower is better. The last column: how many counts are no "
        "further from the median of their cell."
    )
    return Table(captions.title(part), caption, header, tuple(body))


def _instructions(row: Row | None, rows: Sequence[Row]) -> str:
    found = None if row is None else MEASURE.of(row)
    if row is None or found is None:
        return ""
    ratio = path_ratio(row, rows)
    count = f"{found:,.0f}"
    return count if ratio is None or is_baseline(row, rows) else f"{count} ({ratio:.4f})"


def _figure(row: Row, base: Row) -> Figure | None:
    return beside(MEASURE.of(row), MEASURE.of(base))


INSTRUCTIONS = Quantity("Instructions for a page (below 1 is better)", _figure, curve=True)

MEASURE = Measure(
    "instructions_per_page",
    float,
    10,
    _collect,
    view=View(_table, (INSTRUCTIONS,)),
    required=True,
)
