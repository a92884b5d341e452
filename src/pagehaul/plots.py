# SPDX-License-Identifier: GPL-2.0-only
"""The plots of a report: SVG to be put into a page, readable on light and on dark."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from pagehaul import fault_tables, judge_tables, published, scaling, validation
from pagehaul.labels import (
    Column,
    case_label,
    column_label,
    column_of,
    columns,
    cpus_label,
    size_label,
)
from pagehaul.results import Results, Row
from pagehaul.scaling_plot import scaling_figure
from pagehaul.tables import path_ratio

# Their tables are no ratios to the unmodified kernel.
_WITHOUT = (*fault_tables.MAKERS, validation.NAME, judge_tables.NAME)

# Text and axes take the page's own colour: this one is replaced by CSS's currentColor.
_INK = "#010203"

# Mid-tones, which both white and black set off.
_COLOURS = ("#e07b39", "#3a86c8", "#c04a8b", "#7a9a01", "#a06cd5", "#8d6e53")
_BATCH = "#1f9e89"
_OFF = "#8a8a8a"
_CALLERS = ("#b08d2b", "#d1603d", "#9c5c2e")

# So many labels fit beside each other below a plot.
_LEVEL_LABELS = 5

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def plot(results: Results, experiment: str) -> str:
    """Return the SVG element of an experiment's plot, "" for one that has none.

    The results are those of one machine model. But for scaling, the plot is of the largest machine.
    """
    rows = results.of(experiment)
    if experiment in _WITHOUT or not rows:
        return ""
    # The salt makes the names that the SVG gives its parts differ from those of other plots.
    salt = f"{experiment} {rows[0].clock} {rows[0].model}"
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure = _figure(experiment, rows)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace(_INK, "currentColor")


def _figure(experiment: str, rows: Sequence[Row]) -> Figure:
    if experiment == scaling.NAME:
        return scaling_figure(rows, _INK, _OFF, _COLOURS)
    machines = {row.cpus for row in rows}
    rows = [row for row in rows if row.cpus == max(machines)]
    if any(row.instructions_per_page is not None for row in rows):
        figure = _path_length(rows)
    elif experiment == "folio-count":
        figure = _folio_count(rows)
    elif experiment == "folio-size":
        figure = _folio_size(rows)
    else:
        figure = _bars(rows)
    if rows[0].clock == "virtual":
        where = f"model {rows[0].model}, {cpus_label(rows[0].cpus)}"
        figure.suptitle(where, x=0.01, ha="left", fontsize=9)
    return figure


def _colour(column: Column, heads: Sequence[Column]) -> str:
    method = column.method
    if method == "serial":
        return _OFF
    if method == "batch" and not column.settings:
        return _BATCH
    if method == "callers":
        alike = [head for head in heads if head.method == method]
        return _CALLERS[alike.index(column) % len(_CALLERS)]
    others = [
        head
        for head in heads
        if head.method in ("threads", "parallel", "dma", "hybrid")
        or (head.method == "batch" and head.settings)
    ]
    return _COLOURS[others.index(column) % len(_COLOURS)]


def _compared(rows: Sequence[Row]) -> list[Column]:
    """All columns but the baseline, whose ratio is 1 everywhere."""
    heads = columns(rows)
    return heads[1:] if heads and heads[0][1] == "serial" else heads


def _ratio_axis(axes: Axes) -> None:
    axes.axhline(1.0, color=_INK, linewidth=0.8)
    axes.set_ylabel("speed, vanilla = 1")
    axes.grid(axis="y", color=_OFF, alpha=0.3, linewidth=0.6)
    axes.set_ylim(bottom=0)


def _log_axis(axes: Axes, places: Sequence[int], labels: Sequence[str]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_major_formatter(FixedFormatter(list(labels)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=45)


def _lines(axes: Axes, rows: Sequence[Row], heads: Sequence[Column], by: str) -> None:
    """Ratios with the slowest and the fastest, by folio size or by number of folios."""
    for head in _compared(rows):
        mine = [row for row in rows if column_of(row) == head and row.vs_vanilla is not None]
        mine.sort(key=lambda row: getattr(row, by))
        places = [getattr(row, by) for row in mine]
        medians = [row.vs_vanilla or 0.0 for row in mine]
        low = [m - (row.vs_vanilla_min or m) for row, m in zip(mine, medians, strict=True)]
        high = [(row.vs_vanilla_max or m) - m for row, m in zip(mine, medians, strict=True)]
        colour = _colour(head, heads)
        axes.plot(places, medians, "o-", color=colour, markersize=4, label=column_label(head))
        axes.errorbar(places, medians, yerr=[low, high], fmt="none", ecolor=colour, alpha=0.4)


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def _folio_count(rows: Sequence[Row]) -> Figure:
    sizes = sorted({row.folio_kb for row in rows})
    figure = Figure(figsize=(9.5, 3.4 * len(sizes)), layout="constrained")
    heads = columns(rows)
    for axes, folio_kb in zip(figure.subplots(len(sizes), squeeze=False)[:, 0], sizes, strict=True):
        mine = [row for row in rows if row.folio_kb == folio_kb]
        _lines(axes, mine, heads, "folios")
        ratios = published.by_folio_count(folio_kb)
        places = {row.folios for row in mine}
        for head in _compared(mine):
            # One thread of theirs is a batch copied by a single helper.
            if head[1] not in ("batch", "parallel"):
                continue
            points = sorted((n, r) for (n, count), r in ratios.items() if count == head[2])
            if points:
                axes.plot(
                    [n for n, _ in points],
                    [r for _, r in points],
                    "--",
                    color=_colour(head, heads),
                    linewidth=1,
                    label=f"published, {head[2]} thr.",
                )
                places |= {n for n, _ in points}
        # The published tables count in steps that a logarithmic axis has no room to name.
        named = [n for n in sorted(places) if n & (n - 1) == 0]
        _log_axis(axes, named, [f"{n:,}" for n in named])
        _ratio_axis(axes)
        axes.set_xlabel(f"folios of {size_label(folio_kb)}")
        _legend(axes)
    return figure


def _folio_size(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    axes = figure.subplots()
    _lines(axes, rows, columns(rows), "folio_kb")
    sizes = sorted({row.folio_kb for row in rows})
    _log_axis(axes, sizes, [size_label(size) for size in sizes])
    _ratio_axis(axes)
    axes.set_xlabel("folio size")
    _legend(axes)
    return figure


def _bars(rows: Sequence[Row]) -> Figure:
    cases = {row.case: case_label(row) for row in rows}
    heads = _compared(rows)
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(1, len(heads))
    for position, head in enumerate(heads):
        found = {row.case: row for row in rows if column_of(row) == head}
        for number, case in enumerate(cases):
            row = found.get(case)
            if row is None or row.vs_vanilla is None:
                continue
            place = number + (position - (len(heads) - 1) / 2) * width
            low = row.vs_vanilla - (row.vs_vanilla_min or row.vs_vanilla)
            high = (row.vs_vanilla_max or row.vs_vanilla) - row.vs_vanilla
            axes.bar(
                place,
                row.vs_vanilla,
                width * 0.92,
                color=_colour(head, heads),
                label=column_label(head) if number == 0 else None,
            )
            axes.errorbar(
                place,
                row.vs_vanilla,
                yerr=[[low], [high]],
                fmt="none",
                ecolor=_INK,
                elinewidth=0.8,
                capsize=2,
            )
    axes.set_xticks(range(len(cases)), list(cases.values()))
    if len(cases) > _LEVEL_LABELS:
        axes.tick_params(axis="x", labelrotation=30)
    _ratio_axis(axes)
    _legend(axes)
    return figure


def _path_length(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(9.5, 3.2), layout="constrained")
    axes = figure.subplots()
    heads = _compared(rows)
    sizes = sorted({row.folio_kb for row in rows})
    for head in heads:
        points = sorted(
            (row.folio_kb, ratio)
            for row in rows
            if column_of(row) == head and (ratio := path_ratio(row, rows)) is not None
        )
        axes.plot(
            [size for size, _ in points],
            [ratio for _, ratio in points],
            "o-",
            color=_colour(head, heads),
            label=column_label(head),
        )
    _log_axis(axes, sizes, [size_label(size) for size in sizes])
    axes.axhline(1.0, color=_INK, linewidth=0.8)
    axes.grid(axis="y", color=_OFF, alpha=0.3, linewidth=0.6)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel("instructions, vanilla = 1")
    axes.set_xlabel("folio size")
    _legend(axes)
    return figure
