# SPDX-License-Identifier: GPL-2.0-only
"""Speeds: what an experiment is told by that has nothing else to tell."""

from collections.abc import Callable, Sequence

from pagehaul.bench import captions
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import (
    Column,
    Table,
    column_label,
    column_of,
    common_settings,
    order,
    shared_column_of,
    without,
)
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import SPEED
from pagehaul.bench.row import Row
from pagehaul.bench.table_cells import case_cells, case_key, many_machines, throughput
from pagehaul.bench.view import View

POLICY_CAVEAT = (
    "forced: so many CPUs are asked however little there is to do; automatic: the kernel decides, "
    "by its defaults. The last column: its speed by that of the fastest other choice of Pagehaul's "
    "kernel, which is named."
)

CHANCE_CAVEAT = (
    "The fastest of several figures owes something to chance: where all choices are equally fast, "
    "the ratio is below 1."
)


def _table(part: Part) -> Table:
    rows = part.rows
    head_of = shared_column_of if many_machines(rows) else column_of
    heads = sorted(dict.fromkeys(head_of(row) for row in rows), key=order)
    cells = {(case_key(row), head_of(row)): row for row in rows}
    judged = any(row.settings == AUTOMATIC for row in rows)
    baseline = next((head for head in heads if head.method == "serial"), None)
    common = common_settings(heads)
    labels = {
        head: column_label(without(head, common)) + (", GB/s" if head == baseline else "")
        for head in heads
    }
    header = list(case_cells(rows[0], rows)) + list(labels.values())
    body = []
    for key, first in _first_of_cases(rows).items():
        line = list(case_cells(first, rows).values())
        for head in heads:
            row = cells.get((key, head))
            line.append("" if row is None else throughput(row, rows))
        if judged:
            line.append(_by_best_fixed([row for row in rows if case_key(row) == key], head_of))
        body.append(tuple(line))
    if judged:
        header.append("automatic by best fixed")
    caption = _caption(part, list(labels.values()), judged)
    if common:
        settings = ", ".join(f"{name} {value}" for name, value in common)
        caption += f" All columns but those of vanilla and off: {settings}."
    title = captions.title(part)
    return Table(title, caption, tuple(header), tuple(body))


def _first_of_cases(rows: Sequence[Row]) -> dict[tuple[str, int, int, int], Row]:
    """Return the first row of each case and machine: case after case, from few CPUs to many."""
    cases = list(dict.fromkeys(row.case for row in rows))
    found = {case_key(row): row for row in reversed(rows)}
    ordered = sorted(found.values(), key=lambda row: (cases.index(row.case), row.cpus))
    return {case_key(row): row for row in ordered}


def _caption(part: Part, labels: Sequence[str], judged: bool) -> str:
    rows = part.rows
    virtual = {row.clock for row in rows} == {"virtual"}
    caption = "Median speed by the first column's" + ("." if virtual else " (slowest to fastest).")
    if "off" in labels:
        caption += " off, batch, CPUs: Pagehaul's kernel with the feature off, with batch copy by"
        caption += " the caller alone, with copies shared by so many CPUs, and, as is the default,"
        caption += " with batches shared as well."
    if judged:
        caption += f" {POLICY_CAVEAT}" + ("" if virtual else f" {CHANCE_CAVEAT}")
    caption += f" {captions.ran_on(part)}"
    if any("placement" in row.settings for row in rows) and not captions.real(part):
        caption += f" {captions.DIES_CAVEAT}"
    return caption + captions.channels_caveat(part)


def _by_best_fixed(of_case: Sequence[Row], head_of: Callable[[Row], Column]) -> str:
    """Return, for people, the speed of the kernel's own choice by that of the best other one."""
    ours = [row for row in of_case if row.kernel != "vanilla"]
    fixed = [row for row in ours if row.settings != AUTOMATIC]
    automatic = next((row for row in ours if row.settings == AUTOMATIC), None)
    if automatic is None or not fixed:
        return ""
    best = max(fixed, key=lambda row: row.median_gbps)
    # All helpers are forced here: that need not be said.
    name = column_label(head_of(best)).removesuffix(", forced")
    return f"{automatic.median_gbps / best.median_gbps:.2f} ({name})"


VIEW = View(_table, (SPEED,))
