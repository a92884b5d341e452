# SPDX-License-Identifier: GPL-2.0-only
"""The `torture` verb: moves memory in every way while as much as possible goes wrong."""

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from pagehaul import ui
from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, build
from pagehaul.suites import torturing
from pagehaul.suites.outcomes import Outcome, Status
from pagehaul.suites.torturing import VARIANTS

DEFAULT_MINUTES = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=DEFAULT_MINUTES,
        metavar="N",
        help=f"how long, up to a day (default {DEFAULT_MINUTES:g})",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="what each process does; by default another each time"
    )
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        default=VARIANTS[0],
        help=f"which kernel (default: {VARIANTS[0]})",
    )
    options.add_base(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes, up to a day")
    return value


def run(args: argparse.Namespace) -> int:
    """Torture, and report; 1 when anything was wrong."""
    seed = secrets.randbelow(1 << 31) if args.seed is None else args.seed
    if not 0 <= seed < 1 << 63:
        raise PagehaulError(f"{seed} is not a seed: use 0 to 2^63 - 1")
    print(f"seed {seed}", flush=True)
    kernel = build.build(args.variant, bases.get(args.base))
    report = torturing.torture(kernel, max(1, round(args.minutes * 60)), seed)
    _show(report.outcomes)
    record = {
        "variant": args.variant,
        "passed": report.passed,
        **report.figures,
        "failed": [each.name for each in report.outcomes if each.status is Status.FAILED],
    }
    if args.json is not None:
        args.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if report.figures:
        json.dump(record, sys.stdout)
        print()
        print(f"{torturing.line(report.figures)}: {'passed' if report.passed else 'FAILED'}")
    else:
        print("the torture did not come to its end: FAILED")
    return 0 if report.passed else 1


def _show(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.status is not Status.PASSED:
            ui.console.print(
                f"{outcome.status.value}: {escape(outcome.name)}: {escape(outcome.why)}",
                soft_wrap=True,
            )
