# SPDX-License-Identifier: GPL-2.0-only
"""Memory moves in every way while as much as possible goes wrong."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rich.markup import escape

from pagehaul import ui
from pagehaul.guest import cprogs
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import built
from pagehaul.kernel.build import CHECKING_VARIANTS, DEBUG_VARIANTS
from pagehaul.kernel.built import Kernel
from pagehaul.paths import log_dir
from pagehaul.suites import listening, races, tap
from pagehaul.suites.outcomes import Outcome, Status, count, failed

VARIANTS = ("torture", *DEBUG_VARIANTS, "pagehaul")

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
    """Torture a kernel in a guest; a complaint of its kernel is a failed test."""
    tools.require("e2fsprogs", "xfsprogs", "stress-ng")
    program = "migrate_torture"
    directory = cprogs.selftests(kernel.tree, "migrate_copy", [program])
    command = [str(directory / program), "-t", str(seconds), "-s", str(seed)]
    command += built.module_options(kernel)
    log = log_dir() / f"torture-{kernel.label}.log"

    def detail(_: str, received: bytes) -> str:
        found = re.findall(rb"^# (\d+ s: .*)$", received, re.MULTILINE)
        return found[-1].decode() if found else ""

    job = listening.Job(
        title=f"torture of {kernel.label} for {seconds} s, seed {seed}",
        log=log,
        command=["sh", "-c", f"{shlex.join(command)} 2>&1"],
        timeout=seconds + _AROUND_S,
        detail=detail,
        alone=True,
    )
    received, error = listening.run(kernel, GUEST, job)
    for what, times in races.told(kernel, listening.console_of(log)).most_common():
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
