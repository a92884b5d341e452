# SPDX-License-Identifier: GPL-2.0-only
"""What stands in the cells of tables: figures, and what they are compared with."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pagehaul.bench.captions import MARK
from pagehaul.bench.labels import case_label, column_label, column_of
from pagehaul.bench.row import Row, find_baseline, is_baseline

_T = TypeVar("_T")

_COPIERS = ("engines", "helpers", "caller")


def many_machines(rows: Sequence[Row]) -> bool:
    """Whether the rows ran on machines of several numbers of CPUs."""
    return len({row.cpus for row in rows}) > 1


def case_cells(row: Row, rows: Sequence[Row], label: str | None = None) -> dict[str, str]:
    """Return the first cells of a line: what moved and, if there are several, on which machine."""
    cells = {"folios": case_label(row) if label is None else label}
    if many_machines(rows):
        cells["CPUs"] = f"{row.cpus}"
    return cells


def times_cells(row: Row, moves: int) -> dict[str, str]:
    """Return how often something was seen: a few times in virtual time, which nobody asks for."""
    return {} if row.clock == "virtual" else {"times": f"{moves:,}"}


def case_key(row: Row) -> tuple[str, int, int, int]:
    """Return what a line of a table of throughputs is about: the case, and the machine."""
    return *row.case, row.cpus


def throughput(row: Row, rows: Sequence[Row]) -> str:
    """Return the speed of a row: the baseline's in GB/s, that of others by the baseline's.

    In virtual time repetitions agree: the slowest and the fastest stand below the table if not.
    """
    ratio = None if is_baseline(row, rows) else row.vs_vanilla
    by = row.median_gbps / ratio if ratio else 1.0
    unit = "x" if ratio else ""
    text = f"{row.median_gbps / by:.2f}{unit}"
    if row.clock == "virtual":
        return text if row.repeats else text + MARK
    return f"{text} ({min(row.gbps) / by:.2f}-{max(row.gbps) / by:.2f})"


def method_cell(row: Row) -> dict[str, str]:
    """Return the cell that names the method of a line."""
    return {"method": column_label(column_of(row))}


def with_baseline(
    rows: Sequence[Row], seen: Callable[[Row], _T | None]
) -> Iterator[tuple[Row, Row, _T, _T]]:
    """Yield each row and its baseline, with what was seen of both, if it was seen of both."""
    for row in rows:
        baseline = find_baseline(row, rows)
        if baseline is None:
            continue
        ours, base = seen(row), seen(baseline)
        if ours is not None and base is not None:
            yield row, baseline, ours, base


def us(ns: float, base_ns: float, digits: int = 0) -> str:
    """Return a time in microseconds, and by the baseline's."""
    return f"{ns / 1000:,.{digits}f} ({ns / max(1.0, base_ns):.2f})"


def copied_by_dma(row: Row) -> str:
    """Return, for people, how much of the content was copied by engines."""
    engines, *others = (row.counters.get(f"migrate_copy.bytes_{who}", 0) for who in _COPIERS)
    return f"{engines / ((engines + sum(others)) or 1):.0%}"
