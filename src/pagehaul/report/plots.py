# SPDX-License-Identifier: GPL-2.0-only
"""The plots of a report: what each experiment's table is about, as a picture for the page."""

import math
from collections.abc import Mapping, Sequence

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.labels import (
    Column,
    case_label,
    case_text,
    column_label,
    column_of,
    columns,
    common_settings,
    cpus_label,
    size_label,
    without,
)
from pagehaul.bench.quantity import Figure, Quantity, figure, label
from pagehaul.bench.row import Results, Row
from pagehaul.bench.tables import view_of
from pagehaul.bench.views import scaling
from pagehaul.report import chart, courses
from pagehaul.report.chart import Dot, Line, Mark, Panel
from pagehaul.report.palette import colour

# Fewer places are dots: a line would tell nothing of what is between them.
_LEAST_PLACES = 3

# No panel of dots is longer, if its cases can be told apart.
_MOST_DOTS = 24

# What one thread of theirs is, and what any other number.
_PUBLISHED = ("batch", "parallel")


def plot(results: Results, experiment: str) -> str:
    """Return the element with an experiment's picture, "" for one that has none.

    The results are those of one machine model. But for scaling, the plot is of the largest machine.
    """
    rows = results.of(experiment)
    if not rows:
        return ""
    model = f", model {rows[0].model}" if rows[0].model else ""
    view = view_of(experiment, rows)
    if view is scaling.VIEW:
        title = "One caller with helpers (solid), plain callers (dashed)"
        drawn = _scaling(rows)
        title += f"{model}; speed by that of one plain caller"
    else:
        most = max(row.cpus for row in rows)
        rows = [row for row in rows if row.cpus == most]
        quantities = view_of(experiment, rows).quantities
        if not quantities:
            return ""
        drawn = [panel for quantity in quantities for panel in _panels(experiment, rows, quantity)]
        if view.course is not None:
            drawn += courses.panels(rows, view.course)
        where = f" ({cpus_label(most)}{model})" if most else model
        title = f"{experiment}, by {quantities[0].by}{where}"
        shared = common_settings(columns(rows))
        if shared:
            title += "; " + ", ".join(f"{name} {value}" for name, value in shared)
    return chart.figure(title, drawn) if drawn else ""


def _panels(experiment: str, rows: Sequence[Row], quantity: Quantity) -> list[Panel]:
    """Return the panels of a quantity: lines by folios or by size where there are enough of them.

    All other cells are dots.
    """
    heads = [head for head in columns(rows) if not _is_first(head)]
    seen = [row for row in rows if column_of(row) in heads]
    panels: list[Panel | None] = []
    left: list[Row] = []
    for condition in dict.fromkeys(row.condition for row in seen):
        mine = [row for row in seen if row.condition == condition]
        sizes = sorted({row.folio_kb for row in mine})
        of_size = {size: [row for row in mine if row.folio_kb == size] for size in sizes}
        by_folios = [
            size for size in sizes if quantity.curve and _is_curve(of_size[size], "folios")
        ]
        for size in by_folios:
            panels.append(_by_folios(experiment, of_size[size], rows, quantity))
        others = [row for row in mine if row.folio_kb not in by_folios]
        single = all(_places(of_size[size]) == 1 for size in sizes if size not in by_folios)
        if quantity.curve and single and _is_curve(others, "folio_kb"):
            panels.append(_by_size(others, rows, quantity))
        else:
            left += others
    return [panel for panel in panels if panel is not None] + _dots(left, rows, quantity)


def _is_first(head: Column) -> bool:
    """Whether a column is the baseline, whose ratio is 1 everywhere."""
    return head.kernel == "vanilla" and head.method == "serial"


def _places(rows: Sequence[Row]) -> int:
    return len({row.folios for row in rows})


def _is_curve(mine: Sequence[Row], by: str) -> bool:
    """Whether rows are at enough places for lines, and no column has two at one place."""
    keys = [(column_of(row), getattr(row, by)) for row in mine]
    return len({place for _, place in keys}) >= _LEAST_PLACES and len(set(keys)) == len(keys)


def _mark(at: float, row: Row, found: Figure) -> Mark:
    tip = f"{case_text(row)}, {column_label(column_of(row))}: {found.ratio:.3g}x"
    return Mark(at, found.ratio, found.low, found.high, tip)


def _lines(mine: Sequence[Row], rows: Sequence[Row], quantity: Quantity, by: str) -> list[Line]:
    """Return a line for each column, over sizes or over numbers of folios."""
    shared = common_settings(columns(rows))
    drawn = []
    for head in columns(mine):
        of_head = [row for row in mine if column_of(row) == head]
        marks = [
            _mark(math.log2(getattr(row, by)), row, found)
            for row in of_head
            if (found := figure(row, rows, quantity)) is not None
        ]
        marks.sort(key=lambda mark: mark.at)
        if marks:
            drawn.append(Line(column_label(without(head, shared)), colour(head), tuple(marks)))
    return drawn


def _title(mine: Sequence[Row], quantity: Quantity) -> str:
    """Return the title of a panel, with what its rows have in common."""
    return ", ".join(filter(None, (quantity.name, mine[0].condition)))


def _by_folios(
    experiment: str, mine: Sequence[Row], rows: Sequence[Row], quantity: Quantity
) -> Panel | None:
    drawn = _lines(mine, rows, quantity, "folios")
    if not drawn:
        return None
    size = mine[0].folio_kb
    counts = {row.folios for row in mine}
    known = EXPERIMENTS.get(experiment)
    if known is not None and known.published_ratios is not None:
        for head in columns(mine):
            line = _published(head, known.published_ratios(size))
            if line is not None:
                drawn.append(line)
                counts |= {round(2**mark.at) for mark in line.marks}
    # The published tables count in steps that a logarithmic axis has no room to name.
    names = {math.log2(n): f"{n:,}" if n & (n - 1) == 0 else "" for n in sorted(counts)}
    below = f"folios of {size_label(size)}"
    return chart.lines(_title(mine, quantity), drawn, names, below)


def _published(head: Column, ratios: Mapping[tuple[int, int], float]) -> Line | None:
    """Return what was published of a column's number of threads, by number of folios."""
    if head.method not in _PUBLISHED or head.settings:
        return None
    marks = tuple(
        Mark(math.log2(folios), ratio, ratio, ratio, "")
        for (folios, count), ratio in sorted(ratios.items())
        if count == head.threads
    )
    if not marks:
        return None
    return Line(f"published, {head.threads} thr.", colour(head), marks, dashed=True)


def _by_size(mine: Sequence[Row], rows: Sequence[Row], quantity: Quantity) -> Panel | None:
    drawn = _lines(mine, rows, quantity, "folio_kb")
    if not drawn:
        return None
    sizes = sorted({row.folio_kb for row in mine})
    names = {math.log2(size): size_label(size) for size in sizes}
    return chart.lines(_title(mine, quantity), drawn, names, "size of a folio")


def _dots(mine: Sequence[Row], rows: Sequence[Row], quantity: Quantity) -> list[Panel]:
    """Return panels of cells that are no curve, case by case."""
    shared = common_settings(columns(rows))
    groups: dict[str, list[Dot]] = {}
    for row in mine:
        found = figure(row, rows, quantity)
        if found is not None:
            head = column_of(row)
            name = label(row, rows, quantity) or column_label(without(head, shared))
            dot = Dot(name, colour(head), _mark(0, row, found), found.text)
            groups.setdefault(case_label(row), []).append(dot)
    panels: list[list[tuple[str, list[Dot]]]] = []
    room = 0
    for group in groups.items():
        if len(group[1]) > room:
            panels.append([])
            room = _MOST_DOTS
        panels[-1].append(group)
        room -= len(group[1])
    return [chart.dots(quantity.name, each, "") for each in panels]


def _scaling(rows: Sequence[Row]) -> list[Panel]:
    """Return a panel for each case: our one caller, plain callers, and what would be ideal."""
    panels = []
    for curve in scaling.curves(rows):
        counts = {math.log2(cpus): f"{cpus}" for cpus in curve.cpus}
        most = max(curve.cpus)
        ideal = tuple(Mark(at, 2.0**at, 2.0**at, 2.0**at, "") for at in counts)
        drawn = [Line("ideal", None, ideal, dashed=True)] if most > 1 else []
        for name, points, head in (
            (scaling.OURS, curve.ours, Column("pagehaul", "parallel", most)),
            (scaling.CALLERS, curve.callers, Column("vanilla", "callers", most)),
        ):
            marks = tuple(_point(curve.label, name, point) for point in points.values())
            # A page of 1 GB has one plain caller, which needs no name.
            label = name if len(marks) > 1 or len(counts) == 1 else ""
            if marks:
                drawn.append(Line(label, colour(head), marks, dashed=name == scaling.CALLERS))
        panels.append(chart.lines(curve.label, drawn, counts, "CPUs"))
    return panels


def _point(label: str, name: str, point: scaling.Point) -> Mark:
    tip = f"{label}, {name}, {cpus_label(point.cpus)}: {point.speed:.2f}x"
    return Mark(math.log2(point.cpus), point.speed, point.speed, point.speed, tip)
