# SPDX-License-Identifier: GPL-2.0-only
"""What each mechanism of Pagehaul is worth: the same cells with and without it."""

from collections.abc import Sequence

from pagehaul.bench import captions
from pagehaul.bench.labels import (
    Table,
    case_label,
    column_label,
    cpus_label,
    shared_column_of,
    table_of,
)
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Figure, Quantity
from pagehaul.bench.row import Row
from pagehaul.bench.view import View

# Settings for benchmarks only; those of the first kind switch a mechanism off.
WITHOUT = "debug.without/"
_DEBUG = "debug."


def changes(row: Row, full: Row) -> str:
    """Return, for people, what differs in the settings of `row` from those of `full`."""
    names = []
    for name, value in row.settings.items():
        if name in full.settings:
            continue
        short = name.removeprefix(WITHOUT)
        names.append(short if short != name else f"{name.removeprefix(_DEBUG)} {value}")
    return " and ".join(names)


def gains(rows: Sequence[Row]) -> list[tuple[str, Row, Row]]:
    """Return what is changed, the row with the change, and the cell without it, of each pair."""
    pairs = ((row, whole(row, rows)) for row in rows)
    return [(changes(row, full), row, full) for row, full in pairs if full is not None]


def whole(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the cell that a row is, but for its change; None for a row without one."""
    alike = [each for each in rows if _is_cell_of(each, row)]
    # Settings that make the cell, and are no change, are in the one with most of them.
    return max(alike, key=lambda each: len(each.settings), default=None)


def _is_cell_of(full: Row, row: Row) -> bool:
    """Whether `full` is the cell of `row`, with fewer settings."""
    same = ("experiment", "kernel", "method", "threads", "channels", "case", "machine")
    alike = all(getattr(full, name) == getattr(row, name) for name in same)
    fewer = len(full.settings) < len(row.settings)
    return alike and fewer and full.settings.items() <= row.settings.items()


def gain(row: Row, full: Row) -> float:
    """Return by which part of the speed of the changed cell that of the whole one is higher."""
    return full.median_gbps / row.median_gbps - 1


def _table(part: Part) -> Table:
    pairs = gains(part.rows)
    counts = sorted({row.cpus for _, row, _ in pairs})
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for name, row, full in pairs:
        method = column_label(shared_column_of(full))
        line = lines.setdefault(
            (name, case_label(row), method),
            {
                "mechanism": name,
                "folios": case_label(row),
                "method": method,
                **{cpus_label(cpus): "" for cpus in counts},
            },
        )
        mark = "" if row.repeats and full.repeats else captions.MARK
        line[cpus_label(row.cpus)] = f"{gain(row, full):+.1%}{mark}"
    caption = (
        "By how much a move is faster with the mechanism than without it, or, where a value is "
        "named, by default than with that value; all else equal. Below zero the mechanism costs "
        f"time. {captions.ran_on(part)}"
    )
    names = list(dict.fromkeys(name for name, _, _ in lines))
    ordered = [lines[key] for key in sorted(lines, key=lambda key: names.index(key[0]))]
    return table_of(captions.title(part), caption, ordered)


def _figure(row: Row, full: Row) -> Figure:
    lows, highs = full.median_gbps / max(row.gbps), full.median_gbps / min(row.gbps)
    ratio = 1 + gain(row, full)
    return Figure(ratio, lows, highs, f"{ratio:.2f}x")


def _label(row: Row, full: Row) -> str:
    return f"{changes(row, full)}, {column_label(shared_column_of(full))}"


GAIN = Quantity(
    "Speed (above 1: the mechanism helps)",
    _figure,
    base=whole,
    by="the figure without the mechanism, or with the value",
    label=_label,
)

VIEW = View(_table, (GAIN,), apart=True)
