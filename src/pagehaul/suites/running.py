# SPDX-License-Identifier: GPL-2.0-only
"""Runs suites, and sums up."""

import os
import time
from collections.abc import Callable, Mapping, Sequence

from rich.markup import escape

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.paths import log_dir
from pagehaul.suites.outcomes import Outcome, Status, count, failed, skipped, summary

# Where time is short, as in CI, suites are left out rather than cut off: $PAGEHAUL_TEST_MINUTES
# after the start they are skipped, and listed as such.
_MINUTES = "PAGEHAUL_TEST_MINUTES"


def end(share: float = 1.0) -> float:
    """Return when a share of the time has passed, by time.monotonic(); never, if it has no end."""
    minutes = os.environ.get(_MINUTES, "inf")
    try:
        return time.monotonic() + 60 * share * float(minutes)
    except ValueError:
        raise PagehaulError(f"${_MINUTES} is {minutes!r}: give a number of minutes") from None


def until(limit: float, suite: Callable[[], list[Outcome]]) -> Callable[[], list[Outcome]]:
    """Return what runs a suite, or says that it is too late for it."""

    def run() -> list[Outcome]:
        if time.monotonic() >= limit:
            return [skipped("the suite", f"it would begin later than ${_MINUTES} allows")]
        return suite()

    return run


def run_suites(works: Mapping[str, Callable[[], list[Outcome]]]) -> int:
    """Run suites by their names, in a row, and sum up on stdout; 1 when a test failed."""
    found: dict[str, list[Outcome]] = {}
    for name, work in works.items():
        started = time.monotonic()
        ui.console.print(f"[bold]Suite {name}[/]")
        found[name] = _run_suite(work)
        seconds = time.monotonic() - started
        ui.console.print(f"Suite {name}: {summary(found[name])} [dim]in {seconds:.0f} s[/]")
    everything = [outcome for outcomes in found.values() for outcome in outcomes]
    for status in (Status.SKIPPED, Status.FAILED):
        for name, outcomes in found.items():
            _list(name, [each for each in outcomes if each.status is status], status)
    ui.console.print(f"Logs are in {escape(str(log_dir()))}", soft_wrap=True)
    # Plain, and alone on its line, for whatever reads it.
    print(summary(everything), flush=True)
    return 1 if count(everything, Status.FAILED) else 0


def _run_suite(suite: Callable[[], list[Outcome]]) -> list[Outcome]:
    """Run one suite; an error that stops it is a failed test, and the others still run."""
    try:
        return suite() or [failed("the suite", "it has no test")]
    except PagehaulError as error:
        return [failed("the suite", str(error))]


def _list(name: str, outcomes: Sequence[Outcome], status: Status) -> None:
    """List tests that did not pass, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        reasons.setdefault(outcome.why, []).append(outcome.name)
    for why, tests in reasons.items():
        colour = "red" if status is Status.FAILED else "yellow"
        for test in tests:
            ui.console.print(
                f"[{colour}]{status.value}[/] {escape(name)}: {escape(test)}", soft_wrap=True
            )
        for line in why.splitlines() or ["no reason given"]:
            ui.console.print(f"  {escape(line)}", soft_wrap=True)
