# SPDX-License-Identifier: GPL-2.0-only
"""The `test` verb: everything that the project checks."""

import argparse
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from rich.markup import escape

from pagehaul import bases, ui
from pagehaul.bases import Base
from pagehaul.build import DEBUG_VARIANTS
from pagehaul.errors import PagehaulError
from pagehaul.paths import log_dir
from pagehaul.suites import (
    arm64,
    figures,
    fuzz,
    guests,
    lint,
    repeatable,
    topology,
    torture,
    unit,
)
from pagehaul.suites.outcomes import Outcome, Status, count, failed, skipped, summary


class Suite(Protocol):
    """Runs the tests of a suite on the kernels of a base."""

    def __call__(self, *, base: Base) -> list[Outcome]:
        """Return how each test ended."""


class VariantSuite(Protocol):
    """Runs the tests of a suite on a variant of our kernel."""

    def __call__(self, ours: str, *, base: Base) -> list[Outcome]:
        """Return how each test ended on the kernel of the variant `ours`."""


# In the order in which they run: what is quick to fail comes first. Those of OF_VARIANTS take the
# variant of our kernel that they are to test.
SUITES: dict[str, Suite] = {
    "unit": unit.run,
    "lint": lint.run,
    "compile": lint.compiled,
    "kunit": guests.kunit,
    "errors": guests.errors,
    "status": guests.status,
    "events": guests.events,
    "content": guests.content,
    "pinned": guests.pinned,
    "boundaries": guests.boundaries,
    "contig": guests.contig,
    "mlock": guests.mlock,
    "windows": guests.windows,
    "charge": guests.charge,
    "engines": guests.engines,
    "fuzz": fuzz.run,
    "topology": topology.run,
    "move": guests.move,
    "mm-selftests": guests.mm_selftests,
    "repeatable": repeatable.run,
    "bench-smoke": figures.smoke,
    "path-length": figures.path_length,
    "torture": torture.run,
    "arm64": arm64.run,
}

# These can test another variant of our kernel. `charge` compares times, most of which a kernel that
# looks for mistakes spends on that.
OF_VARIANTS: dict[str, VariantSuite] = {
    "kunit": guests.kunit,
    "errors": guests.errors,
    "status": guests.status,
    "events": guests.events,
    "content": guests.content,
    "pinned": guests.pinned,
    "boundaries": guests.boundaries,
    "contig": guests.contig,
    "mlock": guests.mlock,
    "windows": guests.windows,
    "engines": guests.engines,
    "fuzz": fuzz.run,
    "topology": topology.run,
    "move": guests.move,
    "mm-selftests": guests.mm_selftests,
    "torture": torture.run,
}

# What runs on every base but the default one, when nobody says on which: enough to see that the
# same series does the same there. Beside the unmodified kernel it would take a kernel more, which
# is the longest part of it.
SHORT: dict[str, Suite] = {
    "compile": lint.compiled,
    "kunit": guests.kunit,
    "errors": partial(guests.errors, alone=True),
    "status": partial(guests.status, alone=True),
    "move": partial(guests.move, alone=True),
}

# Those of them that need a kernel of that base. Where time is short, as in CI, they are left out
# rather than cut off: $PAGEHAUL_TEST_MINUTES after the start they are skipped, and listed as such.
_MINUTES = "PAGEHAUL_TEST_MINUTES"
_WITH_KERNEL = frozenset(SHORT) - {"compile"}

# Run when they are asked for only: arm64 installs a cross compiler and builds two more kernels,
# which would take as long as half of the rest; windows needs a kernel more; lint has all that
# compile has.
ON_REQUEST = ("windows", "arm64", "compile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--suite",
        action="append",
        choices=SUITES,
        metavar="NAME",
        help=f"only this one; may be repeated: {', '.join(SUITES)}; without it all run, but for "
        f"{', '.join(ON_REQUEST)}",
    )
    parser.add_argument(
        "--variant",
        choices=("pagehaul", *DEBUG_VARIANTS),
        default="pagehaul",
        help="of our kernel; those that look for mistakes of their own run, alone, "
        f"{', '.join(OF_VARIANTS)}",
    )
    parser.add_argument(
        "--base",
        choices=(*bases.names(), "all"),
        help="the kernel that the series is laid over; all: everything on "
        f"{bases.DEFAULT}, {', '.join(SHORT)} on the others (default: all, or {bases.DEFAULT} "
        "with --suite or --variant)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the suites; 1 when a test failed."""
    named = args.base or ("all" if args.variant == "pagehaul" and not args.suite else bases.DEFAULT)
    base = bases.get(bases.DEFAULT if named == "all" else named)
    others = [bases.get(name) for name in bases.names()[1:]] if named == "all" else []
    if args.variant == "pagehaul":
        names = args.suite or [name for name in SUITES if name not in ON_REQUEST]
        works: dict[str, Callable[[], list[Outcome]]] = {
            name: partial(SUITES[name], base=base) for name in names
        }
        if not args.suite:
            end = _end()
            works |= {
                f"{other.name}/{name}": _until(
                    end if name in _WITH_KERNEL else math.inf, partial(suite, base=other)
                )
                for other in others
                for name, suite in SHORT.items()
            }
        return run_suites(works)
    names = args.suite or list(OF_VARIANTS)
    if wrong := [name for name in names if name not in OF_VARIANTS]:
        raise PagehaulError(
            f"--variant {args.variant} is not for {', '.join(wrong)}: "
            f"use one of {', '.join(OF_VARIANTS)}"
        )
    return run_suites({name: partial(OF_VARIANTS[name], args.variant, base=base) for name in names})


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


def _end() -> float:
    """Return when time is short from then on, by time.monotonic(); never, if nobody says so."""
    minutes = os.environ.get(_MINUTES, "inf")
    try:
        return time.monotonic() + 60 * float(minutes)
    except ValueError:
        raise PagehaulError(f"${_MINUTES} is {minutes!r}: give a number of minutes") from None


def _until(end: float, suite: Callable[[], list[Outcome]]) -> Callable[[], list[Outcome]]:
    """Return what runs a suite, or says that it is too late for it."""

    def run() -> list[Outcome]:
        if time.monotonic() >= end:
            return [skipped("the suite", f"it would begin later than ${_MINUTES} allows")]
        return suite()

    return run


def _run_suite(suite: Callable[[], list[Outcome]]) -> list[Outcome]:
    """Run one suite; what stops it is a failed test, and the other suites still run."""
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
