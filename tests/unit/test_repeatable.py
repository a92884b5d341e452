# SPDX-License-Identifier: GPL-2.0-only
"""What the suite `repeatable` calls the same."""

from collections.abc import Sequence

import pytest

from pagehaul.bench.row import Integrity, Results, Row
from pagehaul.suites.all import repeatable
from pagehaul.suites.outcomes import Status


def _row(gbps: float, method: str = "serial") -> Row:
    return Row(
        experiment="repeatable",
        kernel="vanilla",
        method=method,
        threads=1,
        folio_kb=4,
        folios=1,
        bytes=4096,
        gbps=(gbps,),
        median_gbps=gbps,
        vs_vanilla=None,
        vs_vanilla_min=None,
        vs_vanilla_max=None,
        counters={},
    )


def _failures(first: Sequence[Row], second: Sequence[Row]) -> int:
    outcomes = repeatable.check_rows(first, second)
    return sum(outcome.status is Status.FAILED for outcome in outcomes)


def test_the_same_within_the_bound() -> None:
    assert not _failures([_row(1.0)], [_row(1.019)])
    assert _failures([_row(1.0)], [_row(1.021)]) == 1
    assert _failures([_row(1.0)], [_row(0.979)]) == 1


def test_cells_that_are_missing() -> None:
    assert _failures([_row(1.0), _row(1.0, "callers")], [_row(1.0)]) == 1
    assert _failures([_row(1.0)], [_row(1.0), _row(1.0, "callers")]) == 1
    assert _failures([], []) == 1


@pytest.mark.parametrize(
    ("counted", "good"),
    [
        ({"slices": 10000, "forced": 0}, True),
        ({"slices": 10000, "forced": 10}, True),
        ({"slices": 10000, "forced": 11}, False),
        ({}, False),
    ],
)
def test_turns_that_end_by_force(counted: dict[str, int], good: bool) -> None:
    results = Results({"slices": counted}, (), Integrity(0, 0, 0))
    assert (repeatable.check_forced(results).status is Status.PASSED) == good
