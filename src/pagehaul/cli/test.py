# SPDX-License-Identifier: GPL-2.0-only
"""The `test` verb: runs everything that the project checks."""

import argparse
import math
from collections.abc import Callable
from functools import partial

from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases
from pagehaul.kernel.build import DEBUG_VARIANTS
from pagehaul.suites import running
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.registry import OF_VARIANTS, ON_REQUEST, SHORT, SUITES, WITH_KERNEL
from pagehaul.suites.running import run_suites

# The part of the time after which no suite begins that needs a kernel of another base.
_SHARE = 2 / 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--suite",
        action="append",
        choices=SUITES,
        metavar="NAME",
        help=f"only this one; may be repeated: {', '.join(SUITES)}. Without it all run, except "
        f"{', '.join(ON_REQUEST)}. The user's guide says what each does",
    )
    parser.add_argument(
        "--variant",
        choices=("pagehaul", *DEBUG_VARIANTS),
        default="pagehaul",
        help="of our kernel (default: pagehaul). The others are debug kernels: without the "
        f"unmodified kernel beside them, {', '.join(OF_VARIANTS)} run on them",
    )
    parser.add_argument(
        "--base",
        choices=(*bases.names(), "all"),
        help="the kernel that the series is laid over; all: everything on "
        f"{bases.DEFAULT}, {', '.join(SHORT)} on the others (default: all, or {bases.DEFAULT} "
        "with --suite or --variant)",
    )
    parser.epilog = (
        "All of it takes one to two hours on two CPUs. After PAGEHAUL_TEST_MINUTES minutes, if the "
        "environment has that, no suite begins that needs a kernel."
    )


def run(args: argparse.Namespace) -> int:
    """Run the suites; 1 when a test failed."""
    named = args.base or ("all" if args.variant == "pagehaul" and not args.suite else bases.DEFAULT)
    base = bases.get(bases.DEFAULT if named == "all" else named)
    others = [bases.get(name) for name in bases.names()[1:]] if named == "all" else []
    if args.variant == "pagehaul":
        names = args.suite or [name for name in SUITES if name not in ON_REQUEST]
        end = running.end()
        works = {name: _until(end, name, partial(SUITES[name], base=base)) for name in names}
        if not args.suite:
            # Another kernel and its suites take half as long as all that comes before.
            end = running.end(_SHARE)
            works |= {
                f"{other.name}/{name}": _until(end, name, partial(suite, base=other))
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


def _until(
    end: float, name: str, suite: Callable[[], list[Outcome]]
) -> Callable[[], list[Outcome]]:
    """Return what runs a suite, up to `end` only if it needs a kernel."""
    return running.until(end if name in WITH_KERNEL else math.inf, suite)
