# SPDX-License-Identifier: GPL-2.0-only
"""Rows of the tests: what was seen of them, by the names of the measures."""

from dataclasses import replace
from typing import Any

from pagehaul.bench.known import MEASURES
from pagehaul.bench.row import Row


def seen(**figures: Any) -> dict[str, Any]:
    """Return what a row has seen: figures by the names of measures, of which None is none."""
    assert figures.keys() <= {measure.name for measure in MEASURES}
    return {name: figure for name, figure in figures.items() if figure is not None}


def seeing(row: Row, **figures: Any) -> Row:
    """Return a row that has seen more."""
    return replace(row, seen={**row.seen, **seen(**figures)})
