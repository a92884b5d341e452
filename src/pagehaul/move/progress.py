# SPDX-License-Identifier: GPL-2.0-only
"""How far a move is, as lines of JSON for a program; bar.py has the bar for people."""

import json
import sys
import time
from typing import Self

from pagehaul.move.outcome import Outcome

KINDS = ("bar", "json", "none")

# Seconds between two lines of JSON.
_LINE_S = 0.5


class Progress:
    """Shows how far a move is; this one shows nothing. All sizes are in bytes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, pid: int, resident: int) -> None:
        """Go on to process `pid`, which has about `resident` in memory."""

    def settle(self, outcome: Outcome) -> None:
        """Add what became of some pages."""


class JsonLines(Progress):
    """A line of JSON on stderr for each process, and twice a second while its pages move."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = self._started
        self._processes = 0
        self._pid = 0
        self._resident = 0
        self._total = Outcome()

    def __exit__(self, *_: object) -> None:
        self._write("end")

    def begin(self, pid: int, resident: int) -> None:
        """See Progress."""
        self._pid = pid
        self._processes += 1
        self._resident += resident
        self._write("process")

    def settle(self, outcome: Outcome) -> None:
        """See Progress."""
        self._total.add(outcome)
        if time.monotonic() - self._last >= _LINE_S:
            self._write("moving")

    def _write(self, event: str) -> None:
        self._last = time.monotonic()
        line = {
            "event": event,
            "seconds": round(self._last - self._started, 3),
            "pid": self._pid,
            "processes": self._processes,
            "resident_bytes": self._resident,
            "moved_bytes": self._total.moved,
            "gone_bytes": self._total.gone,
            "left_bytes": self._total.left.total(),
        }
        print(json.dumps(line), file=sys.stderr, flush=True)
