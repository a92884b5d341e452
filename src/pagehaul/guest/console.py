# SPDX-License-Identifier: GPL-2.0-only
"""The console of a guest, and what on it says that the guest is not well."""

import re
from collections.abc import Sequence
from pathlib import Path

# Console lines that an error repeats.
_TAIL_LINES = 25

# What a healthy kernel never prints. The patterns match at the start of a message, so that a
# program that quotes such a line in a message of its own does not count.
_SPLATS = re.compile(
    r"Kernel panic - not syncing"
    r"|Oops: |Oops\[#|Internal error: "
    r"|(?:watchdog: )?BUG[: ]"
    r"|kernel BUG at "
    r"|WARNING: "
    r"|general protection fault"
    r"|[Uu]nable to handle (?:kernel|page fault)"
    r"|INFO: (?:task .* blocked for more than|possible |suspicious |trying to register )"
    r"|(?:rcu: )?INFO: rcu_\w+ .*stall"
    r"|watchdog: .*hard LOCKUP"
    r"|UBSAN: |KCSAN: "
    r"|kmemleak: \d+ new suspected memory leaks"
    r"|pagealloc: (?:memory corruption|single bit error)"
    # A checker gives up: from there on its silence says nothing.
    r"|DMA-API: (?:cacheline tracking ENOMEM|debugging out of memory)"
    r"|ODEBUG: Out of memory"
    r"|kmemleak: (?:Memory pool empty|Cannot allocate a kmemleak_object|.*\bdisabled\b)"
    r"|turning off the locking correctness validator"
)
_HANGS = re.compile(r"INFO: task|(?:rcu: )?INFO: rcu_|watchdog: ")
# When the machine goes off, a CPU that is to be stopped may wake a task of one that has been: Linux
# 6.12 warns of that.
_OFF = "reboot: Power down"
_OF_THE_END = re.compile(r"WARNING: .* at kernel/sched/core\.c:\d+ set_task_cpu\+")
# "[    1.234567] ", with the caller's id where the kernel prints one: "[    1.2][   T12] ".
_TIMESTAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")


class Console:
    """The console of a guest: its lines, and the first one that says that it is not well."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allow = [re.compile(pattern) for pattern in allow]
        self._rest = b""
        self._lines: list[str] = []
        self._splat_line = 0
        self.splat: str | None = None
        self._off = False
        self.hung = False

    def feed(self, data: bytes) -> None:
        """Take what the console printed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace").rstrip("\r"))

    def _line(self, line: str) -> None:
        self._lines.append(line)
        message = _TIMESTAMP.sub("", line)
        self._off = self._off or message == _OFF
        if not _SPLATS.match(message) or any(p.search(message) for p in self._allow):
            return
        if self._off and _OF_THE_END.match(message):
            return
        self.hung = self.hung or bool(_HANGS.match(message))
        if self.splat is None:
            self.splat = message
            self._splat_line = len(self._lines) - 1

    def text(self) -> str:
        """Return all that it printed, up to the last line that has ended."""
        return "\n".join(self._lines)

    def report(self, what: str, log: Path) -> str:
        """Return `what`, where the log is, and the complaint or else the last lines."""
        start = max(0, len(self._lines) - _TAIL_LINES)
        if self.splat is not None:
            start = self._splat_line
        lines = self._lines[start : start + _TAIL_LINES]
        return f"{what}; the whole log is in {log}" + "".join(f"\n  | {line}" for line in lines)
