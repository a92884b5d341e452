# SPDX-License-Identifier: GPL-2.0-only
"""Reads the Test Anything Protocol, flat (kselftest) or nested (KUnit)."""

import re
from dataclasses import dataclass

from pagehaul.suites.outcomes import Outcome, Status, failed

# Lines of diagnostics that the reason of a failure repeats.
_DIAGNOSTICS = 6

_PLAN = re.compile(r"1\.\.(\d+)(?:\s*#\s*SKIP\b\s*(.*))?\s*$", re.IGNORECASE)
_RESULT = re.compile(r"(not )?ok\b\s*(\d*)\s*(?:-\s)?(.*)$")
_DIRECTIVE = re.compile(r"\s#\s*(SKIP|XFAIL|TODO|XPASS)\b:?\s*(.*)$", re.IGNORECASE)


@dataclass
class _Level:
    """The tests of one depth of nesting, since the level around it went on."""

    planned: int | None = None
    seen: int = 0


def parse(text: str) -> list[Outcome]:
    """Return the tests of a TAP stream; of nested ones, the innermost.

    A stream that is cut off, bails out or has no test at all has a failed test that says so: what
    did not run must never look as if it had passed.
    """
    outcomes: list[Outcome] = []
    levels: dict[int, _Level] = {}
    diagnostics: list[str] = []
    whole_skip: str | None = None
    for line in text.splitlines():
        content = line.lstrip(" ")
        depth = len(line) - len(content)
        if content.startswith("#"):
            diagnostics = [*diagnostics, content.lstrip("# ").rstrip()][-_DIAGNOSTICS:]
        elif content.startswith("Bail out!"):
            outcomes.append(failed("bail out", content.removeprefix("Bail out!").strip()))
        elif plan := _PLAN.match(content):
            if plan[2] is not None:
                whole_skip = plan[2] or "no reason given"
            levels.setdefault(depth, _Level()).planned = int(plan[1])
        elif result := _RESULT.match(content):
            inner = [levels.pop(deeper) for deeper in sorted(levels) if deeper > depth]
            nested = sum(level.seen for level in inner)
            for level in inner:
                outcomes += _missing(level)
            levels.setdefault(depth, _Level()).seen += 1
            outcome = _outcome(result, diagnostics)
            # The line of a suite repeats what its tests have said already.
            if not nested:
                outcomes.append(outcome)
            diagnostics = []
    for level in levels.values():
        outcomes += _missing(level)
    if whole_skip is not None and not outcomes:
        return [Outcome("all", Status.SKIPPED, whole_skip)]
    return outcomes or [failed("any test", "none was reported")]


def _missing(level: _Level) -> list[Outcome]:
    # More than planned is no harm: programs that fork may repeat a line.
    if level.planned is None or level.planned <= level.seen:
        return []
    return [failed("plan", f"{level.planned} tests planned, {level.seen} reported")]


def _outcome(result: re.Match[str], diagnostics: list[str]) -> Outcome:
    name = result[3].strip()
    directive = _DIRECTIVE.search(f" {name}")
    if directive:
        name = f" {name}"[: directive.start()].strip()
    name = name or f"test {result[2]}"
    kind = directive[1].upper() if directive else ""
    if kind == "SKIP" and directive:
        return Outcome(name, Status.SKIPPED, directive[2].strip() or "no reason given")
    if kind in ("XFAIL", "TODO"):
        return Outcome(name, Status.PASSED)
    if result[1] or kind == "XPASS":
        return Outcome(name, Status.FAILED, "; ".join(diagnostics))
    return Outcome(name, Status.PASSED)
