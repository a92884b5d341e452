# SPDX-License-Identifier: GPL-2.0-only
"""Runs suites, and sums up."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import spent
from pagehaul.paths import log_dir
from pagehaul.suites.outcomes import Outcome, Status, count, failed, summary


def run_suites(works: Mapping[str, Callable[[], list[Outcome]]], record: Path | None = None) -> int:
    """Run suites by their names, in a row, and sum up on stdout; 1 when a test failed.

    record is a file for all outcomes, and for what this process has spent its time on.
    """
    found: dict[str, list[Outcome]] = {}
    for name, work in works.items():
        started = time.monotonic()
        ui.console.print(f"[bold]Suite {name}[/]")
        found[name] = _run_suite(work)
        tell(name, found[name], time.monotonic() - started)
    if record is not None:
        write_record(record, found, spent.so_far())
    return sum_up(found)


def tell(name: str, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Say how a suite ended."""
    ui.console.print(f"Suite {name}: {summary(outcomes)} [dim]in {seconds:.0f} s[/]")


def sum_up(found: Mapping[str, Sequence[Outcome]]) -> int:
    """List what did not pass, and print the sum of all suites on stdout; 1 when a test failed."""
    everything = [outcome for outcomes in found.values() for outcome in outcomes]
    for status in (Status.SKIPPED, Status.FAILED):
        for name, outcomes in found.items():
            _list(name, [each for each in outcomes if each.status is status], status)
    ui.console.print(f"Logs are in {escape(str(log_dir()))}", soft_wrap=True)
    # Plain, and alone on its line, for whatever reads it.
    print(summary(everything), flush=True)
    return 1 if count(everything, Status.FAILED) else 0


def write_record(
    path: Path, found: Mapping[str, Sequence[Outcome]], seconds: Mapping[str, float]
) -> None:
    """Write outcomes by suite, and amounts by name, to a file."""
    suites = {
        name: [{"name": each.name, "status": each.status.value, "why": each.why} for each in tests]
        for name, tests in found.items()
    }
    text = json.dumps({"suites": suites, "spent": dict(seconds)}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_record(path: Path, name: str) -> tuple[list[Outcome], dict[str, float]]:
    """Return what write_record() has written of a suite: its outcomes, and the amounts.

    Raises OSError, ValueError, KeyError or TypeError for a file that is missing or unfinished.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    tests = record["suites"][name]
    outcomes = [Outcome(each["name"], Status(each["status"]), each["why"]) for each in tests]
    return outcomes, {str(what): float(amount) for what, amount in record["spent"].items()}


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
