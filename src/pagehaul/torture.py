# SPDX-License-Identifier: GPL-2.0-only
"""The `torture` verb: memory moves in every way while as much as possible goes wrong."""

import argparse
import json
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from pagehaul import races, ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs, vm
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import bases, build
from pagehaul.kernel.build import CHECKING_VARIANTS, DEBUG_VARIANTS, Kernel
from pagehaul.paths import log_dir
from pagehaul.suites import tap
from pagehaul.suites.outcomes import Outcome, Status, count, failed

VARIANTS = ("torture", *DEBUG_VARIANTS, "pagehaul")
DEFAULT_MINUTES = 10.0

# A node of CPUs each, and a far one without, so that pages are demoted and promoted.
GUEST = Guest(cpus=4, nodes=2, memory_only_nodes=1, memory_mb=3072, append=("movablecore=1G",))

# Seconds for the boot and all before and after the torture, on an emulated debug kernel.
_AROUND_S = 900.0

_JSON = re.compile(r"^# json (\{.*\})$", re.MULTILINE)
_MB = 1 << 20


@dataclass(frozen=True)
class Report:
    """What a run gave: its tests, and its figures, none where it did not come to its end."""

    outcomes: list[Outcome]
    figures: Mapping[str, object]

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not count(self.outcomes, Status.FAILED) and bool(self.figures)


def torture(kernel: Kernel, seconds: int, seed: int) -> Report:
    """Torture a kernel in a guest; what its kernel complains of is a failed test."""
    tools.require("e2fsprogs", "xfsprogs", "stress-ng")
    program = "migrate_torture"
    directory = cprogs.selftests(kernel.tree, "migrate_copy", [program])
    command = [str(directory / program), "-t", str(seconds), "-s", str(seed)]
    command += build.module_options(kernel)
    log = log_dir() / f"torture-{kernel.label}.log"
    console = log.with_suffix(".console.log")
    received = bytearray()
    error = ""
    with ui.step(f"torture of {kernel.label} for {seconds} s, seed {seed}", log) as step:

        def listen(stream: str, data: bytes) -> None:
            received.extend(data)
            if found := re.findall(rb"^# (\d+ s: .*)$", received, re.MULTILINE):
                step.detail(found[-1].decode())

        try:
            vm.run(
                kernel,
                GUEST,
                ["sh", "-c", f"{shlex.join(command)} 2>&1"],
                timeout=seconds + _AROUND_S,
                log=console,
                on_output=listen,
                on_restart=received.clear,
                allow=races.allowed(kernel),
            )
        except vm.GuestError as caught:
            error = str(caught)
        log.write_bytes(bytes(received))
    for what, times in races.told(kernel, console).most_common():
        ui.console.print(f"KCSAN: {times} x {escape(what)}", soft_wrap=True)
    report = read_report(received.decode(errors="replace"), error)
    if report.figures and kernel.variant in CHECKING_VARIANTS:
        report.outcomes.extend(_unchecked(report.figures))
    return report


def _unchecked(figures: Mapping[str, object]) -> list[Outcome]:
    """Return a failure if a kernel that has to look for leaks has not."""
    if isinstance(figures.get("leaks"), bool):
        return []
    return [failed("kmemleak", "this kernel has to look for leaks, and did not")]


def read_report(output: str, error: str) -> Report:
    """Make a report of what the program printed; `error` is what ended its guest, or ""."""
    outcomes = tap.parse(output)
    if error:
        outcomes.append(failed("kernel log", error))
    found = _JSON.search(output)
    if found is None:
        return Report([*outcomes, failed("the program", "it did not come to its end")], {})
    return Report(outcomes, json.loads(found[1]))


def line(figures: Mapping[str, object]) -> str:
    """Sum up the figures of a run."""

    def number(name: str) -> int:
        value = figures.get(name)
        return value if isinstance(value, int) else 0

    faults = figures.get("faults")
    kinds = len(faults) if isinstance(faults, dict) else 0
    leaks = "leaks not looked for"
    if isinstance(figures.get("leaks"), bool):
        leaks = "leaks" if figures["leaks"] else "no leaks"
    return (
        f"seed {number('seed')}, {number('seconds')} s: {number('moved_bytes') // _MB} MB moved, "
        f"{number('verified_bytes') // _MB} MB verified, {number('wrong_words')} wrong words, "
        f"{number('faults_total')} faults of {kinds} kinds, "
        f"{number('unexpected_errors')} unexpected errors, {number('stuck')} stuck, {leaks}"
    )


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
    bases.add_argument(parser)
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
    report = torture(kernel, max(1, round(args.minutes * 60)), seed)
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
        print(f"{line(report.figures)}: {'passed' if report.passed else 'FAILED'}")
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
