# SPDX-License-Identifier: GPL-2.0-only
"""Where Pagehaul is slower than the unmodified kernel."""

from collections.abc import Iterator, Sequence

from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import cpus_label, size_label
from pagehaul.bench.row import Row, Statement, find_baseline

# A cell of less than this part of the unmodified kernel's speed is a loss.
LEAST = 0.98


def compared(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of Pagehaul's kernel that are compared with the unmodified one."""
    return [
        row
        for row in rows
        if row.kernel == "pagehaul"
        and row.vs_vanilla is not None
        and (baseline := find_baseline(row, rows)) is not None
        and baseline.kernel == "vanilla"
    ]


def cell_words(row: Row) -> str:
    """Return a cell in words: demotion of 1,024 folios of 64 KB on 8 CPUs."""
    folios = "one folio" if row.folios == 1 else f"{row.folios:,} folios"
    where = f" on {cpus_label(row.cpus)}" if row.cpus else ""
    why = f"{row.condition} of " if row.condition else ""
    return f"{why}{folios} of {size_label(row.folio_kb)}{where}"


def by_default(row: Row) -> bool:
    """Whether a row was measured without settings but those of the kernel's own choice."""
    # Which program moves the memory is no setting.
    settings = {name: value for name, value in row.settings.items() if name != "by"}
    return settings in ({}, AUTOMATIC)


def ratio(row: Row) -> float:
    """Return the speed of a row that is compared, by the unmodified kernel's."""
    return row.vs_vanilla or 0.0


def slower(compared: Sequence[Row]) -> Iterator[Statement]:
    """Tell of the slowest cell, and how many lose; settings forced for comparison do not count."""
    cells = [row for row in compared if by_default(row)]
    if not cells:
        return
    slowest = min(cells, key=ratio)
    lost = sum(ratio(row) < LEAST for row in cells)
    text = f"{lost or 'None'} of {len(cells):,} measurements {'are' if lost > 1 else 'is'}"
    text += f" slower than the unmodified kernel; the slowest, {cell_words(slowest)}, reaches "
    yield Statement(f"{text}{ratio(slowest):.2f}x its speed.", not lost)
