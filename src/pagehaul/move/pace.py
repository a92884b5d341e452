# SPDX-License-Identifier: GPL-2.0-only
"""How fast pages are moved: the size of windows, and when each of them may begin."""

import threading
import time
from collections.abc import Callable

from pagehaul.move.calls import Calls
from pagehaul.move.outcome import Outcome
from pagehaul.move.stop import Stop
from pagehaul.move.windows import window_bytes

# Bytes of the first window of a process, and by how much each is larger, up to a limit.
_FIRST_WINDOW = 8 << 20
_GROWTH = 4

# Seconds of the rate that all callers together may be ahead of it.
_AHEAD_S = 0.25


class Pace:
    """Keeps the callers to `rate` (bytes a second), and their calls to `max_stall` (seconds).

    `smallest` is the size of a huge page, the least that a window has. None is no limit.
    Several threads may use it at once.
    """

    def __init__(
        self, smallest: int, rate: float | None = None, max_stall: float | None = None
    ) -> None:
        self.calls = Calls(max_stall)
        self._smallest = smallest
        self._rate = rate
        self._size = self._next = smallest
        self._free_at = 0.0  # time.monotonic() at which the rate allows the next window
        self._lock = threading.Lock()

    def begin(self, total: int, threads: int) -> None:
        """Prepare for `total` bytes of another process, to be moved by `threads` callers."""
        self._size = window_bytes(total, threads)
        if self._rate is not None:
            self._size = min(self._size, int(self._rate * _AHEAD_S / threads))
        self._size = max(self._size, self._smallest)
        self._next = max(_FIRST_WINDOW, self._smallest)

    def window_bytes(self) -> int:
        """Size of the next window, in bytes.

        The first ones are small: nothing moves until the first of them is known.
        """
        size = min(self._next, self._size)
        self._next *= _GROWTH
        return size

    def run(self, move: Callable[[], Outcome], stop: Stop) -> Outcome:
        """Call `move`, for a window, once its turn has come."""
        if self._rate is None:
            return move()
        stop.wait(self._free_at - time.monotonic())
        started = time.monotonic()
        outcome = move()
        with self._lock:
            self._free_at = max(self._free_at, started) + outcome.moved / self._rate
        return outcome
