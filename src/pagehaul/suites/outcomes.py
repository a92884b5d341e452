# SPDX-License-Identifier: GPL-2.0-only
"""What a test gave, whichever program ran it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Status(Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One test: its name, how it ended, and why, where it did not pass."""

    name: str
    status: Status
    why: str = ""


def passed(name: str) -> Outcome:
    """Return the outcome of a test that passed."""
    return Outcome(name, Status.PASSED)


def failed(name: str, why: str) -> Outcome:
    """Return the outcome of a test that failed."""
    return Outcome(name, Status.FAILED, why)


def skipped(name: str, why: str) -> Outcome:
    """Return the outcome of a test that could not run here."""
    return Outcome(name, Status.SKIPPED, why)


def verdict(name: str, why_failed: str) -> Outcome:
    """Return the outcome of a test that failed if there is a reason."""
    return failed(name, why_failed) if why_failed else passed(name)


def prefixed(prefix: str, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes with `prefix` before their names."""
    return [replace(outcome, name=f"{prefix}{outcome.name}") for outcome in outcomes]


def count(outcomes: Iterable[Outcome], status: Status) -> int:
    """How many ended so."""
    return sum(outcome.status is status for outcome in outcomes)


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the last line of `pagehaul test`: `N passed, N failed, N skipped`."""
    found = list(outcomes)
    return ", ".join(f"{count(found, status)} {status.value}" for status in Status)
