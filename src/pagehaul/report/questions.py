# SPDX-License-Identifier: GPL-2.0-only
"""What readers of a report ask, and the one table that answers each question."""

import statistics
from collections.abc import Callable, Iterator, Sequence

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.known import MEASURES
from pagehaul.bench.labels import Table, case_text, column_label, shared_column_of, table_of
from pagehaul.bench.measures.cpu_time import CPU_TIME
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.quantity import SPEED, Quantity, figure
from pagehaul.bench.row import Results, Row
from pagehaul.bench.tables import is_apart
from pagehaul.report.losses import LEAST, compared, ratio

FAST = "How fast is it?"
LOSES = "Does it ever lose?"
COSTS = "What does it cost others?"
DMA = "What does DMA give?"
SMALL = "Small print"

# What moves for others to see: their waits, their CPU time, their caches.
_COSTS = tuple(
    quantity
    for measure in MEASURES
    if measure.costs and measure.view is not None
    for quantity in measure.view.quantities
    if quantity is not SPEED
)


def question_of(experiment: str, rows: Sequence[Row]) -> str:
    """Return the question that an experiment's rows answer; SMALL for those of none."""
    if is_apart(experiment):
        return SMALL
    if any(row.channels for row in rows):
        return DMA
    if any(measure.of(row) is not None for measure in MEASURES if measure.costs for row in rows):
        return COSTS
    known = EXPERIMENTS.get(experiment)
    return LOSES if known is not None and known.about_losses else FAST


def tables(results: Results) -> dict[str, Table]:
    """Return the table of each question that was asked, in their order."""
    ours = compared([row for row in results.rows if not is_apart(row.experiment)])
    makers: dict[str, Callable[[Sequence[Row], Results], Table]] = {
        FAST: _fast,
        LOSES: _loses,
        COSTS: _costs,
        DMA: _dma,
    }
    made = {question: maker(ours, results) for question, maker in makers.items()}
    return {question: table for question, table in made.items() if table.rows}


def _parts(rows: Sequence[Row]) -> Iterator[tuple[dict[str, str], list[Row]]]:
    """Yield the rows of each experiment and machine model, with the cells that name them."""
    several = len({row.model for row in rows if row.model}) > 1
    groups: dict[tuple[str, str | None, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.experiment, row.model, row.clock), []).append(row)
    for (experiment, model, _), found in groups.items():
        yield {"experiment": experiment, **({"model": model or ""} if several else {})}, found


def _where(row: Row) -> str:
    return f"{case_text(row)}, {column_label(shared_column_of(row))}"


def _fast(ours: Sequence[Row], results: Results) -> Table:
    del results
    timed = [row for row in ours if INSTRUCTIONS.of(row) is None]
    rows = [row for row in timed if not row.channels]
    lines = []
    for names, found in _parts(rows):
        best = max(found, key=ratio)
        lines.append(
            {
                **names,
                "cells": f"{len(found)}",
                "slowest": f"{min(map(ratio, found)):.2f}x",
                "median": f"{statistics.median(map(ratio, found)):.2f}x",
                "fastest": f"{ratio(best):.2f}x",
                "the fastest is": _where(best),
            }
        )
    caption = "Speed by the unmodified kernel's, of all cells without DMA channels."
    return table_of(FAST, caption, lines)


def unsure(row: Row) -> bool:
    """Whether a row's repetitions are on both sides of the unmodified kernel's median."""
    low, high = row.vs_vanilla_min, row.vs_vanilla_max
    return low is not None and high is not None and low < 1.0 < high


def _loses(ours: Sequence[Row], results: Results) -> Table:
    del results
    lines = []
    for names, found in _parts(ours):
        worst = min(found, key=ratio)
        lost = [row for row in found if ratio(row) < LEAST]
        lines.append(
            {
                **names,
                "cells": f"{len(found)}",
                f"below {LEAST}": f"{len(lost)}",
                "of these for certain": f"{sum(not unsure(row) for row in lost)}",
                "not to be told from 1": f"{sum(map(unsure, found))}",
                "slowest": f"{ratio(worst):.2f}x",
                "the slowest is": _where(worst),
            }
        )
    caption = (
        "Speed by the unmodified kernel's; of path-length, its instructions by ours. For certain: "
        "each repetition is slower than the unmodified kernel's median. Not to be told from 1: "
        "some repetitions are slower than that, and some are faster. A cell with settings forced "
        "for comparison counts as any other; the verdict tells them apart."
    )
    return table_of(LOSES, caption, lines)


def _costs(ours: Sequence[Row], results: Results) -> Table:
    lines = []
    for names, found in _parts(ours):
        rows = results.of(found[0].experiment)
        for quantity in _COSTS:
            lines += [{**names, **cells} for cells in _worst(found, rows, quantity)]
    caption = (
        "By the unmodified kernel's in the same case; below 1 is better. The worst cell is named, "
        "with its own figure."
    )
    return table_of(COSTS, caption, lines)


def _worst(found: Sequence[Row], rows: Sequence[Row], quantity: Quantity) -> list[dict[str, str]]:
    """Return the cells about one quantity, none where it was not seen."""
    seen = [(row, each) for row in found if (each := figure(row, rows, quantity))]
    if not seen:
        return []
    row, worst = max(seen, key=lambda pair: pair[1].ratio)
    ratios = [each.ratio for _, each in seen]
    return [
        {
            "what": quantity.name.partition(" (")[0],
            "best": f"{min(ratios):.2f}x",
            "median": f"{statistics.median(ratios):.2f}x",
            "worst": f"{max(ratios):.2f}x",
            "the worst is": f"{_where(row)}: {worst.text}",
        }
    ]


def _dma(ours: Sequence[Row], results: Results) -> Table:
    lines = []
    for names, found in _parts([row for row in ours if row.channels]):
        best = max(found, key=ratio)
        rows = results.of(found[0].experiment)
        spent = [each.ratio for row in found if (each := figure(row, rows, CPU_TIME))]
        lines.append(
            {
                **names,
                "cells": f"{len(found)}",
                "slowest": f"{min(map(ratio, found)):.2f}x",
                "fastest": f"{ratio(best):.2f}x",
                "CPU time": f"{min(spent):.2f}x to {max(spent):.2f}x" if spent else "",
                "the fastest is": _where(best),
            }
        )
    caption = "Speed and CPU time by the unmodified kernel's, of all cells with DMA channels."
    return table_of(DMA, caption, lines)
