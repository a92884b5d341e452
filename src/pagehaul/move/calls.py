# SPDX-License-Identifier: GPL-2.0-only
"""How much one call of move_pages(2) is given, so that it takes no longer than it may."""

import threading
import time

# Bytes of the first call for folios of a size: nobody knows yet how long they take.
_FIRST = 256 << 10

# A call that takes longer than it may is followed by ones that would take this part of it.
_AIM = 0.8


class Calls:
    """Keeps calls to `max_stall` seconds, as far as earlier ones tell; None: without a limit.

    A process waits for a page no longer than the call takes that moves it. Each size of folios has
    an amount of its own, since large ones take less time a byte. The amount doubles while calls
    take less than half of `max_stall`, and shrinks when one takes longer. One folio is the least.
    Several threads may use it at once.
    """

    def __init__(self, max_stall: float | None = None) -> None:
        self.longest = 0.0  # seconds of the slowest call
        self._max_stall = max_stall
        self._bytes: dict[int, int] = {}  # size of folios -> what a call may be given
        self._lock = threading.Lock()

    def most(self, size: int) -> int | None:
        """Return how many folios of `size` bytes a call may be given; None: any number."""
        return None if self._max_stall is None else max(self._allowed(size) // size, 1)

    def _allowed(self, size: int) -> int:
        return self._bytes.get(size, max(_FIRST, size))

    def learn(self, size: int, count: int, started: float, *, sure: bool) -> None:
        """Tell of a call that ends now, and was given `count` folios of `size` bytes.

        `started` is its time.monotonic(). Only one that is `sure` to have moved all of them tells
        that more would fit; the folios may be smaller, or some have stayed.
        """
        seconds = time.monotonic() - started
        with self._lock:
            self.longest = max(self.longest, seconds)
            if self._max_stall is None:
                return
            given = size * count
            allowed = self._allowed(size)
            if seconds > self._max_stall:
                self._bytes[size] = min(allowed, int(given * _AIM * self._max_stall / seconds))
            elif sure and seconds < self._max_stall / 2 and 2 * given > allowed:
                self._bytes[size] = max(allowed, 2 * given)
