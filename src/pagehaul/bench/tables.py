# SPDX-License-Identifier: GPL-2.0-only
"""The tables of a report, as text, for the terminal and for the page alike."""

from collections.abc import Sequence
from dataclasses import replace

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.known import MEASURES
from pagehaul.bench.labels import Table
from pagehaul.bench.part import Part
from pagehaul.bench.row import Results, Row
from pagehaul.bench.view import View
from pagehaul.bench.views import throughput


def by_model(results: Results, experiment: str) -> list[Results]:
    """Return the rows of an experiment, apart by clock and machine model, in their order."""
    parts: dict[tuple[str, str | None], list[Row]] = {}
    for row in results.of(experiment):
        parts.setdefault((row.clock, row.model), []).append(row)
    return [replace(results, rows=tuple(rows)) for rows in parts.values()]


def view_of(experiment: str, rows: Sequence[Row]) -> View:
    """Return how an experiment is told: as it says, or else by the first measure that was seen."""
    known = EXPERIMENTS.get(experiment)
    if known is not None and known.view is not None:
        return known.view
    for measure in MEASURES:
        if measure.view is not None and any(measure.of(row) is not None for row in rows):
            return measure.view
    return throughput.VIEW


def is_apart(experiment: str) -> bool:
    """Whether an experiment's figures are no ratios to the unmodified kernel's."""
    known = EXPERIMENTS.get(experiment)
    return known is not None and known.view is not None and known.view.apart


def experiment_table(results: Results, experiment: str) -> Table:
    """Return the table of one experiment, measured with one machine model: see by_model()."""
    rows = results.of(experiment)
    known = EXPERIMENTS.get(experiment)
    title, kind = ("", "parallel") if known is None else (known.title, known.machine.name)
    part = Part(experiment, title, kind, rows, results.environment)
    return view_of(experiment, rows).table(part)


def published_table(results: Results, experiment: str) -> Table | None:
    """Return published figures beside an experiment's measured ones, or None without any.

    The results are those of one machine model.
    """
    known = EXPERIMENTS.get(experiment)
    if known is None or known.published is None:
        return None
    return known.published(results.of(experiment))
