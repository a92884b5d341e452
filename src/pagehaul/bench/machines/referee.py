# SPDX-License-Identifier: GPL-2.0-only
"""Which of several guests may load the host: they take turns where they measure its time."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from pagehaul.bench.machines.places import Turn


class Referee:
    """Tells guests whose turn it is, by files that movebench waits for (--turns)."""

    def __init__(self, directory: Path, turns: Sequence[Turn]) -> None:
        self._directory = directory
        self._lock = Lock()
        self._left = deque(turns)
        self._begun = dict.fromkeys((turn.kernel for turn in turns), 0)
        for kernel in self._begun:
            self.directory(kernel).mkdir()
        self._booting = set(self._begun)

    def directory(self, kernel: str) -> Path:
        """Return where the files of a kernel's turns are."""
        return self._directory / kernel

    def _begin(self) -> None:
        turn = self._left.popleft()
        self._begun[turn.kernel] += 1
        (self.directory(turn.kernel) / str(self._begun[turn.kernel])).touch()

    def ready(self, kernel: str) -> None:
        """Begin the first turn, when no guest is booting any more: `kernel` has booted."""
        with self._lock:
            self._booting.discard(kernel)
            if not self._booting:
                self._begin()

    def done(self) -> None:
        """Begin the next turn: the last one has ended."""
        with self._lock:
            if self._left:
                self._begin()

    def abandon(self) -> None:
        """Let all guests end, whose turns will not come: one of them is no more."""
        for kernel in self._begun:
            (self.directory(kernel) / "abandoned").touch()
