# SPDX-License-Identifier: GPL-2.0-only
"""The tables of a report, as text, for the terminal and for the page alike."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pagehaul.bench import captions, detail_tables, fault_tables, judge_tables, scaling, validation
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import (
    Column,
    Table,
    column_label,
    column_of,
    columns,
    common_settings,
    order,
    shape_label,
    shared_column_of,
    without,
)
from pagehaul.bench.results import DETERMINISM, Results, Row, find_baseline, is_baseline
from pagehaul.bench.table_cells import case_cells, case_key, many_machines, throughput

POLICY_CAVEAT = (
    "forced: so many CPUs are asked however little there is to do; automatic: the kernel decides, "
    "by its defaults. The last column: its speed by that of the fastest other choice of Pagehaul's "
    "kernel, which is named."
)

CHANCE_CAVEAT = (
    "The fastest of several figures owes something to chance: where all choices are equally fast, "
    "the ratio is below 1."
)

_Maker = Callable[[Results, str], Table]


def by_model(results: Results, experiment: str) -> list[Results]:
    """Return the rows of an experiment, apart by clock and machine model, in their order."""
    parts: dict[tuple[str, str | None], list[Row]] = {}
    for row in results.of(experiment):
        parts.setdefault((row.clock, row.model), []).append(row)
    return [replace(results, rows=tuple(rows)) for rows in parts.values()]


def experiment_table(results: Results, experiment: str) -> Table:
    """Return the table of one experiment, measured with one machine model: see by_model()."""
    return _maker(results.of(experiment), experiment)(results, experiment)


def _maker(rows: Sequence[Row], experiment: str) -> _Maker:
    named: dict[str, _Maker] = {
        "scaling": scaling.table,
        "validation": validation.table,
        "judge": judge_tables.table,
        "cpu-freed": detail_tables.cpu_table,
        **dict.fromkeys(fault_tables.MAKERS, _fault_table),
    }
    if experiment in named:
        return named[experiment]
    seen: tuple[tuple[Callable[[Row], object], _Maker], ...] = (
        (lambda row: row.instructions_per_page, _path_length_table),
        (lambda row: row.touch, detail_tables.touch_table),
        (lambda row: row.hog, detail_tables.busy_table),
        (lambda row: row.pages_moved, detail_tables.reasons_table),
        (lambda row: row.remap, detail_tables.remap_table),
        (lambda row: row.reads, detail_tables.reads_table),
    )
    for figure, maker in seen:
        if any(figure(row) is not None for row in rows):
            return maker
    return _throughput_table


def _throughput_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
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
    caption = _throughput_caption(results, experiment, list(labels.values()), judged)
    if common:
        settings = ", ".join(f"{name} {value}" for name, value in common)
        caption += f" All columns but those of vanilla and off: {settings}."
    title = captions.title(results, experiment)
    return Table(title, caption, tuple(header), tuple(body))


def _first_of_cases(rows: Sequence[Row]) -> dict[tuple[str, int, int, int], Row]:
    """Return the first row of each case and machine: case after case, from few CPUs to many."""
    cases = list(dict.fromkeys(row.case for row in rows))
    found = {case_key(row): row for row in reversed(rows)}
    ordered = sorted(found.values(), key=lambda row: (cases.index(row.case), row.cpus))
    return {case_key(row): row for row in ordered}


def _throughput_caption(
    results: Results, experiment: str, labels: Sequence[str], judged: bool
) -> str:
    rows = results.of(experiment)
    virtual = {row.clock for row in rows} == {"virtual"}
    caption = "Median speed by the first column's" + ("." if virtual else " (slowest to fastest).")
    if "off" in labels:
        caption += " off, batch, CPUs: Pagehaul's kernel with the feature off, with batch copy by"
        caption += " the caller alone, with copies shared by so many CPUs, and, as is the default,"
        caption += " with batches shared as well."
    if judged:
        caption += f" {POLICY_CAVEAT}" + ("" if virtual else f" {CHANCE_CAVEAT}")
    caption += f" {captions.ran_on(results, experiment)}"
    if any("placement" in row.settings for row in rows) and not captions.real(results, experiment):
        caption += f" {captions.DIES_CAVEAT}"
    return caption + captions.channels_caveat(results, experiment)


def _by_best_fixed(of_case: Sequence[Row], head_of: Callable[[Row], Column]) -> str:
    """Return, for people, the speed of the kernel's own choice by that of the best other one."""
    ours = [row for row in of_case if row.kernel != "vanilla"]
    fixed = [row for row in ours if row.settings != AUTOMATIC]
    automatic = next((row for row in ours if row.settings == AUTOMATIC), None)
    if automatic is None or not fixed:
        return ""
    best = max(fixed, key=lambda row: row.median_gbps)
    # Whoever is to help is forced to: that need not be said.
    name = column_label(head_of(best)).removesuffix(", forced")
    return f"{automatic.median_gbps / best.median_gbps:.2f} ({name})"


def _fault_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    caption, header, body = fault_tables.MAKERS[experiment](rows)
    if {row.clock for row in rows} != {"host"}:
        caption += f" {captions.ran_on(results, experiment)}"
    elif captions.accelerator(results, experiment) == "tcg":
        caption += " Accelerator: tcg, an emulator: times mean nothing by themselves."
    return Table(captions.title(results, experiment), caption, header, body)


def path_ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """Instructions of `row` by those of its baseline."""
    baseline = find_baseline(row, rows)
    if baseline is None or not baseline.instructions_per_page or not row.instructions_per_page:
        return None
    return row.instructions_per_page / baseline.instructions_per_page


def _path_length_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    heads = columns(rows)
    cells = {(row.shape, column_of(row)): row for row in rows}
    body = []
    for shape in dict.fromkeys(row.shape for row in rows):
        of_shape = [row for row in rows if row.shape == shape]
        line = [shape_label(*shape)]
        line += [_instructions(cells.get((shape, head)), rows) for head in heads]
        baseline = next((row for row in of_shape if is_baseline(row, rows)), None)
        per_page = baseline.instructions_per_page if baseline is not None else None
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
    return Table(captions.title(results, experiment), caption, header, tuple(body))


def _instructions(row: Row | None, rows: Sequence[Row]) -> str:
    if row is None or row.instructions_per_page is None:
        return ""
    ratio = path_ratio(row, rows)
    count = f"{row.instructions_per_page:,.0f}"
    return count if ratio is None or is_baseline(row, rows) else f"{count} ({ratio:.4f})"
