# SPDX-License-Identifier: GPL-2.0-only
"""How fast pages are moved: the size of windows, and when each of them may begin."""

import threading
import time
from collections.abc import Callable

from pagehaul.move.outcome import Outcome
from pagehaul.move.stop import Stop
from pagehaul.move.windows import window_bytes

# Seconds of the rate that all callers together may be ahead of it.
_AHEAD_S = 0.25

# A window that takes longer than it may is followed by one that would take this part of it.
_AIM = 0.8


class Pace:
    """Keeps the callers to `rate` (bytes a second) and windows to `max_stall` (seconds).

    A process waits at most as long for a page as the window of the page takes. So windows begin
    with `smallest` bytes, a huge page, and grow as long as they take less than half of
    `max_stall`. One that takes longer than `max_stall` makes those after it smaller. What is
    None has no limit. Several threads may use it at once.
    """

    def __init__(
        self, smallest: int, rate: float | None = None, max_stall: float | None = None
    ) -> None:
        self.longest = 0.0  # seconds of the slowest window
        self._smallest = smallest
        self._rate = rate
        self._max_stall = max_stall
        self._most = self._size = smallest
        self._free_at = 0.0  # time.monotonic() at which the rate allows the next window
        self._lock = threading.Lock()

    def begin(self, total: int, threads: int) -> None:
        """Prepare for `total` bytes of another process, to be moved by `threads` callers."""
        self._most = window_bytes(total, threads)
        if self._rate is not None:
            self._most = min(self._most, int(self._rate * _AHEAD_S / threads))
        self._most = max(self._most, self._smallest)
        self._size = self._most if self._max_stall is None else min(self._size, self._most)

    def window_bytes(self) -> int:
        """Size of the next window, in bytes."""
        return self._size

    def run(self, move: Callable[[], Outcome], size: int, stop: Stop) -> Outcome:
        """Call `move`, for a window of `size` bytes, once its turn has come."""
        if self._rate is not None:
            stop.wait(self._free_at - time.monotonic())
        started = time.monotonic()
        outcome = move()
        self._learn(size, outcome.moved, started, time.monotonic() - started)
        return outcome

    def _learn(self, size: int, moved: int, started: float, seconds: float) -> None:
        with self._lock:
            self.longest = max(self.longest, seconds)
            if self._rate is not None:
                self._free_at = max(self._free_at, started) + moved / self._rate
            if self._max_stall is None:
                return
            if seconds > self._max_stall:
                fitting = int(size * _AIM * self._max_stall / seconds)
                self._size = max(self._smallest, min(self._size, fitting))
            elif seconds < self._max_stall / 2 and 2 * moved > size >= self._size:
                # Only a window that was full and moved for the most part tells that more would fit.
                self._size = min(self._most, 2 * self._size)
