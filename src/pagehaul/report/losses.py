# SPDX-License-Identifier: GPL-2.0-only
"""Where Pagehaul is slower than the unmodified kernel: every such cell, named in a sentence."""

from collections.abc import Sequence

from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import case_label, case_text, column_label, cpus_label, shared_column_of
from pagehaul.bench.row import Row, Statement

# A cell of less than this part of the unmodified kernel's speed is a loss.
LEAST = 0.98


def cell_text(row: Row) -> str:
    """Return a cell for people: experiment, what moved on how many CPUs, method, and model."""
    texts = [row.experiment, case_text(row), column_label(shared_column_of(row))]
    return ", ".join([*texts, f"model {row.model}"] if row.model else texts)


def by_default(row: Row) -> bool:
    """Whether a row was measured without settings but those of the kernel's own choice."""
    return row.settings in ({}, AUTOMATIC)


def ratio(row: Row) -> float:
    """Return the speed of a row that is compared, by the unmodified kernel's."""
    return row.vs_vanilla or 0.0


def slower(compared: Sequence[Row]) -> Statement | None:
    """Return what is to be said of the slowest of the cells, and of all that lose."""
    if not compared:
        return None
    slowest = min(compared, key=ratio)
    lost = [row for row in compared if ratio(row) < LEAST]
    worst = f"{ratio(slowest):.2f}x the unmodified kernel's speed ({cell_text(slowest)})"
    if not lost:
        text = f"Slowest: {worst}; none of {len(compared):,} cells is below {LEAST}."
        return Statement(text, True)
    text = f"Slowest: {worst}; {len(lost):,} of {len(compared):,} cells are below {LEAST}."
    default = [row for row in lost if by_default(row)]
    others = [row for row in lost if not by_default(row)]
    for name, rows in (("", default), ("With settings forced for comparison: ", others)):
        if rows:
            text += f" {name}{'; '.join(_groups(rows))}."
    return Statement(text, False)


def _groups(rows: Sequence[Row]) -> list[str]:
    """Return the cells by experiment, model and method, each with all that lost there."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        key = (row.experiment, row.model or "", column_label(shared_column_of(row)))
        groups.setdefault(key, []).append(row)
    texts = []
    for (experiment, model, method), members in groups.items():
        by_case: dict[str, list[Row]] = {}
        for row in members:
            by_case.setdefault(case_label(row), []).append(row)
        cases = ", ".join(_case(label, of_case) for label, of_case in by_case.items())
        name = ", ".join(filter(None, (experiment, model, method)))
        texts.append(f"{name}: {cases}")
    return texts


def _case(label: str, rows: Sequence[Row]) -> str:
    """Return one case for people: 4 KB x 8 on 2, 4 CPUs 0.91 to 0.95."""
    least, most = (f"{each(map(ratio, rows)):.2f}" for each in (min, max))
    counts = sorted({row.cpus for row in rows if row.cpus})
    where = f" on {', '.join(map(str, counts[:-1]))}, " if len(counts) > 1 else " on "
    where = where + cpus_label(counts[-1]) if counts else ""
    return f"{label}{where} {least if least == most else f'{least} to {most}'}"
