# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of a benchmark program count, and which notes they leave."""

from collections.abc import Iterable
from typing import Any

import pytest
from test_bench import Model

from pagehaul.bench import measuring
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import Cell, Shape
from pagehaul.bench.collect import Tally, collect
from pagehaul.bench.measure import Observed
from pagehaul.bench.row import KERNELS, Row


def line(**values: Any) -> dict[str, Any]:
    """What a program prints of a cell that has been measured once."""
    return {
        "moves": [1],
        "ns": [4096],
        "cpu_ns": [4096],
        "moved_bytes": [4096],
        "not_moved": 0,
        "statuses": {},
        "bytes_verified": 4096,
        "mismatches": 0,
        "counters": {},
        "error": None,
        **values,
    }


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "vanilla"])
def test_any_kernel_of_ours_may_leave_folios(kernel: str) -> None:
    observed, tally = Observed(Cell(Shape(4, 1), kernel, "serial"), False), Tally()
    collect(line(not_moved=1, statuses={"-16": 1}), "classic", observed, tally)
    assert len(observed.lines) == 1
    assert tally.not_moved == 1
    assert "1 folios did not move" in tally.notes[0]


def test_nothing_is_taken_of_a_cell_that_ended_with_an_error() -> None:
    cell = Cell(Shape(4, 1), "pagehaul", "serial", optional=True)
    observed, tally = Observed(cell, False), Tally()
    collect(line(error="no memory"), "classic", observed, tally)
    assert not observed.lines
    assert tally.notes == ["classic, 4 KB x 1: left out: no memory"]


def test_what_differs_is_noted_once_all_of_a_cell_has_been_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[set[int]] = []

    def check(rows: Iterable[Row], tally: Tally) -> None:
        seen.append({len(row.gbps) for row in rows})

    monkeypatch.setattr(measuring, "check_determinism", check)
    experiments = [EXPERIMENTS["path-length"]]
    measuring.measure(experiments, Model(), quick=True, boots=3, on_part=lambda *_: None)
    (lengths,) = seen
    assert all(length % 3 == 0 for length in lengths)
