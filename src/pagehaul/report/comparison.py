# SPDX-License-Identifier: GPL-2.0-only
"""Two runs of the benchmark, cell by cell: what has become faster, and what slower."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pagehaul.bench.labels import Table, case_text, column_label, column_of, table_of
from pagehaul.bench.means import differ
from pagehaul.bench.row import REPEATABLE, Results, Row, find_baseline
from pagehaul.report.losses import cell_words

_Key = tuple[object, ...]


@dataclass(frozen=True)
class Change:
    """A cell of both runs; change is the speed of the second by that of the first.

    Speeds are by the unmodified kernel's of the same run where both runs have it, and GB/s where
    they have not. certain is whether the change is more than repetitions differ by chance.
    """

    before: Row
    after: Row
    change: float
    certain: bool


def _key(row: Row) -> _Key:
    settings = tuple(sorted(row.settings.items()))
    made = (row.experiment, row.kernel, row.method, row.threads, row.channels, settings)
    return *made, row.case, row.machine


def _speeds(row: Row, rows: Sequence[Row], by_baseline: bool) -> list[float]:
    baseline = find_baseline(row, rows) if by_baseline else None
    return [each / (baseline.median_gbps if baseline else 1.0) for each in row.gbps]


def changes(before: Results, after: Results) -> list[Change]:
    """Return the cells that both runs have, in the order of the second one.

    A baseline is compared by its GB/s: by itself it would never change.
    """
    old = {_key(row): row for row in before.rows}
    found = []
    for row in after.rows:
        other = old.get(_key(row))
        if other is None:
            continue
        bases = find_baseline(row, after.rows), find_baseline(other, before.rows)
        relative = all(base is not None for base in bases) and bases[0] is not row
        speeds = _speeds(other, before.rows, relative), _speeds(row, after.rows, relative)
        change = statistics.median(speeds[1]) / statistics.median(speeds[0])
        certain = abs(change - 1) > REPEATABLE and differ(*speeds)
        found.append(Change(other, row, change, certain))
    return found


def sentence(before: Results, after: Results) -> str:
    """Return in words how far a run is from an earlier one of the same cells."""
    found = changes(before, after)
    far = [each for each in found if abs(each.change - 1) > REPEATABLE]
    since = str(before.environment.get("date", "")).partition("T")[0]
    text = (
        f"Compared with the run of {since}, {len(found) - len(far)} of {len(found)} measurements "
    )
    text += f"are within {REPEATABLE:.0%}"
    if not far:
        return f"{text}."
    most = max(far, key=lambda each: abs(each.change - 1))
    return f"{text}; the furthest, {cell_words(most.after)}, runs at {most.change:.2f}x its speed."


def tables(before: Results, after: Results) -> list[Table]:
    """Return a table of experiments and one of the cells that have changed for certain."""
    found = changes(before, after)
    lines = []
    for name in dict.fromkeys(each.after.experiment for each in found):
        mine = [each for each in found if each.after.experiment == name]
        ratios = [each.change for each in mine]
        lines.append(
            {
                "experiment": name,
                "cells": f"{len(mine)}",
                "faster": f"{sum(each.certain and each.change > 1 for each in mine)}",
                "slower": f"{sum(each.certain and each.change < 1 for each in mine)}",
                "least": f"{min(ratios):.2f}x",
                "median": f"{statistics.median(ratios):.2f}x",
                "most": f"{max(ratios):.2f}x",
            }
        )
    only = (len(before.rows) - len(found), len(after.rows) - len(found))
    caption = (
        "Speed in the second run by that in the first, each by the unmodified kernel's of its own "
        "run; where a run has none, and for that kernel itself, GB/s. faster, slower: by more than "
        f"{REPEATABLE:.0%}, and more than chance by Welch's test at 95%. Cells of the first run "
        f"only: {only[0]}; of the second only: {only[1]}."
    )
    changed = sorted((each for each in found if each.certain), key=lambda each: each.change)
    cells = [
        {
            "experiment": each.after.experiment,
            "cell": case_text(each.after),
            "method": column_label(column_of(each.after)),
            **({"model": each.after.model} if each.after.model else {}),
            "first, GB/s": f"{each.before.median_gbps:.2f}",
            "second, GB/s": f"{each.after.median_gbps:.2f}",
            "change": f"{each.change:.2f}x",
        }
        for each in changed
    ]
    made = [table_of("Both runs, by experiment", caption, lines)]
    if cells:
        text = "Cells that have changed for certain, the slowest first."
        made.append(table_of("What has changed", text, cells))
    return made
