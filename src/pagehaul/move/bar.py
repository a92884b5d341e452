# SPDX-License-Identifier: GPL-2.0-only
"""How far a move is, as a bar on a terminal."""

from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress

from pagehaul import ui
from pagehaul.move.outcome import Outcome
from pagehaul.move.progress import Progress


class Bar(Progress):
    """A bar on stderr, where that is a terminal."""

    def __init__(self) -> None:
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=ui.console,
            transient=True,
            disable=not ui.console.is_terminal,
        )
        self._task = self._bar.add_task("moving", total=0)
        self._total = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, pid: int, resident: int) -> None:
        """See Progress."""
        self._total += resident
        self._bar.update(self._task, description=f"moving {pid}", total=self._total)

    def settle(self, outcome: Outcome) -> None:
        """See Progress."""
        self._bar.advance(self._task, outcome.settled)
