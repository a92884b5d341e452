# SPDX-License-Identifier: GPL-2.0-only
"""Names for people: of sizes, cells, methods and columns, and the table that they end up in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pagehaul.bench.choices import AUTOMATIC, FORCED, is_forced
from pagehaul.bench.row import METHODS, Row

# Threads of a column that has one on every CPU, or on a part of them, on machines of any size.
ALL_CPUS = 0
HALF_OF_CPUS = -1
QUARTER_OF_CPUS = -2
# Methods without the feature, which have no settings.
_PLAIN = ("serial", "callers")

_ANY_SIZE = {
    ALL_CPUS: ("all CPUs", "a caller a CPU"),
    HALF_OF_CPUS: ("half of the CPUs", "a caller for two CPUs"),
    QUARTER_OF_CPUS: ("a quarter of the CPUs", "a caller for four CPUs"),
}


class Column(NamedTuple):
    """What a column of an experiment's table is about; settings are knobs besides the method's."""

    kernel: str
    method: str
    threads: int
    settings: tuple[tuple[str, str], ...] = ()
    channels: int = 0


@dataclass(frozen=True)
class Table:
    """A title, a line of explanation, a header and rows of text, as wide as the header."""

    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_of(title: str, caption: str, lines: Sequence[Mapping[str, str]]) -> Table:
    """Return the table of lines that map a head to a cell; heads in the order of their coming."""
    header = tuple(dict.fromkeys(head for line in lines for head in line))
    body = tuple(tuple(line.get(head, "") for head in header) for line in lines)
    return Table(title, caption, header, body)


def size_label(folio_kb: int) -> str:
    """Return a size of folios for people: 64 KB, 2 MB."""
    for unit, kib in (("GB", 1 << 20), ("MB", 1 << 10)):
        if folio_kb >= kib:
            return f"{folio_kb // kib} {unit}"
    return f"{folio_kb} KB"


def shape_label(folio_kb: int, folios: int) -> str:
    """Return what was moved, for people: 64 KB x 1024."""
    return f"{size_label(folio_kb)} x {folios:,}"


def case_label(row: Row) -> str:
    """Return what methods are compared for, for people: busy, 64 KB x 1024."""
    shape = shape_label(*row.shape)
    return f"{row.condition}, {shape}" if row.condition else shape


def cpus_label(cpus: int) -> str:
    """Return a number of CPUs for people."""
    return "1 CPU" if cpus == 1 else f"{cpus} CPUs"


def case_text(row: Row) -> str:
    """Return a case and its machine for people: 4 KB x 8 on 2 CPUs."""
    return f"{case_label(row)} on {cpus_label(row.cpus)}" if row.cpus else case_label(row)


def column_of(row: Row) -> Column:
    """Return the column a row belongs to."""
    # The settings that force a choice depend on the memory that moves: the choice is the same.
    settings = tuple((FORCED if is_forced(row.settings) else row.settings).items())
    return Column(row.kernel, row.method, row.threads, settings, row.channels)


def shared_column_of(row: Row) -> Column:
    """Return the column of a row in a table of several machines: all CPUs of one are ALL_CPUS."""
    column = column_of(row)
    if row.method not in ("callers", "threads", "parallel", "pool") or row.threads == 1:
        return column
    parts = {1: ALL_CPUS, 2: HALF_OF_CPUS, 4: QUARTER_OF_CPUS}
    part, rest = divmod(row.cpus, row.threads)
    return column._replace(threads=row.threads if rest else parts.get(part, row.threads))


def column_label(column: Column) -> str:
    """Return a column for people."""
    kernel, method, threads, settings, channels = column
    of_them = f"{channels} channel{'s' if channels > 1 else ''}"
    cpus, callers = _ANY_SIZE.get(threads, (f"{threads} CPUs", f"{threads} callers"))
    labels = {
        "serial": "vanilla" if kernel == "vanilla" else "off",
        "callers": f"{kernel}, {callers}",
        "batch": "batch",
        "threads": f"{cpus}, copy",
        "parallel": cpus,
        "pool": f"{cpus}, pool",
        "faults": f"{kernel}, {threads} thread{'s' if threads > 1 else ''}",
        "dma": of_them,
        "hybrid": f"CPU and {of_them}",
    }
    return ", ".join([labels[method], *_settings_labels(dict(settings))])


def _settings_labels(settings: Mapping[str, str]) -> list[str]:
    if settings == FORCED:
        return ["forced"]
    if settings == AUTOMATIC:
        return ["automatic"]
    # A module's parameter has a long path, and a name that says enough.
    return [f"{name.split('/parameters/')[-1]} {value}" for name, value in settings.items()]


def order(column: Column) -> tuple[bool, int, int, int, bool]:
    """Return where a column stands: vanilla's first, its serial one before all.

    What the kernel chooses stands behind what it is compared with.
    """
    of_any_size = column.threads in _ANY_SIZE
    return (
        column.kernel != "vanilla",
        METHODS.index(column.method),
        (1 << 16) + column.threads if of_any_size else column.threads,
        column.channels,
        dict(column.settings) == AUTOMATIC,
    )


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of an experiment, in order()."""
    return sorted(dict.fromkeys(column_of(row) for row in rows), key=order)


def common_settings(heads: Sequence[Column]) -> tuple[tuple[str, str], ...]:
    """Return the settings that need not be in the head of each column."""
    ours = [dict(head.settings).items() for head in heads if head.method not in _PLAIN]
    shared = [item for item in ours[0] if all(item in each for each in ours)] if ours else []
    # The name of a choice is shorter than its settings.
    named = any(dict(head.settings) in (FORCED, AUTOMATIC) for head in heads)
    return () if named else tuple(shared)


def without(head: Column, common: Sequence[tuple[str, str]]) -> Column:
    """Return a column without settings that are told elsewhere."""
    return head._replace(settings=tuple(item for item in head.settings if item not in common))
