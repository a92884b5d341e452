# SPDX-License-Identifier: GPL-2.0-only
"""Ending early: callers are asked to, so that all that has moved is accounted for."""

import signal
import time
from types import FrameType
from typing import Self

# Seconds after which a wait looks whether it is to end.
_LOOK_S = 0.05

# Exit statuses, as a shell gives them to a program that the signal has killed.
_STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
_WORDS = {130: "interrupted", 143: "terminated"}


class Stop:
    """Asks callers to end. With a `parent`, it is set as well when the parent is.

    A signal handler may set it. A threading.Event would wait for a lock there that the code below
    the handler may hold.
    """

    def __init__(self, parent: "Stop | None" = None) -> None:
        self._parent = parent
        self._set = False

    def set(self) -> None:
        """Ask all callers to end."""
        self._set = True

    def is_set(self) -> bool:
        """Whether callers are to end."""
        return self._set or (self._parent is not None and self._parent.is_set())

    def wait(self, seconds: float) -> bool:
        """Wait for `seconds`, less when it is set before; returns is_set()."""
        end = time.monotonic() + seconds
        while not self.is_set() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
        return self.is_set()


class SignalStop(Stop):
    """While it is entered, Ctrl-C and SIGTERM set it; the second of them kills as usual.

    Only the main thread can enter it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.status = 0  # the exit status: 130 after Ctrl-C, 143 after SIGTERM

    @property
    def word(self) -> str | None:
        """What has happened, for a report; None when nothing has."""
        return _WORDS.get(self.status)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.status = _STATUS[signal.Signals(number)]
        self.set()
        for each in _STATUS:
            signal.signal(each, signal.SIG_DFL)

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._take) for each in _STATUS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
