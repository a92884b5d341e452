# SPDX-License-Identifier: GPL-2.0-only
"""What a machine of the benchmark is asked for, and what it answers."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from pagehaul.bench.cell import Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import Kind
from pagehaul.errors import PagehaulError


@dataclass(frozen=True)
class Turn:
    """One line of a plan, on one kernel."""

    kernel: str
    line: str


@dataclass(frozen=True)
class Place:
    """A machine to measure on: of a kind, and with so many CPUs.

    clock is what its time is: "virtual", of the model of that name, "host", or "instructions".
    """

    kind: Kind
    cpus: int
    clock: str = "host"
    model: str | None = None

    @property
    def independent(self) -> bool:
        """Whether its figures are the same whatever else this host does."""
        return self.clock != "host"

    @property
    def label(self) -> str:
        """What a user is told of it."""
        cpus = f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}"
        return f"{self.kind.name}, {cpus}" + (f", {self.model}" if self.model else "")


# Called for each line as it comes, with the kernel and the line.
OnLine = Callable[[str, dict[str, Any]], None]


class Lines:
    """The lines of a benchmark program, which come in pieces of any length."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[dict[str, Any]]:
        """Return the lines that end in the next piece; one that is not JSON is empty."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in whole:
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({})
        return found


class Machine(Protocol):
    """Something that runs plans of the benchmark programs."""

    def kernels(self) -> tuple[str, ...]:
        """Return the kernels that can be booted, or the only one that there is."""

    def places(self, experiment: Experiment, quick: bool) -> tuple[Place, ...]:
        """Where an experiment is to be measured; nowhere, if it cannot be."""

    def size(self, place: Place, quick: bool) -> Size:
        """How much it can measure there."""

    def disposable(self) -> bool:
        """Whether memory may be taken from it, and whatever else runs on it be disturbed."""

    def nodes(self) -> tuple[int, int]:
        """Return the nodes between which pages move."""

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        """How many independent guests may run at the same time."""

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> list[tuple[str, dict[str, Any]]]:
        """Take the turns, in their order, and return a kernel's name and a JSON line for each.

        on_line gets each of them as it comes; timeout, in seconds, is for all of them. Setting
        `stop` ends it early.
        """

    def environment(self) -> dict[str, Any]:
        """Return what a reader of the results has to know about it."""


def parse_lines(stdout: str, returncode: int, stderr: str, log: str) -> list[dict[str, Any]]:
    """Return the program's JSON lines; PagehaulError when it did not get to its end."""
    lines: list[dict[str, Any]] = []
    try:
        lines = [json.loads(line) for line in stdout.splitlines() if line.strip()]
    except ValueError as error:
        raise PagehaulError(f"movebench printed something that is not JSON: {error}") from error
    # 1 is what it returns for a cell that failed, and the cell's line says why.
    if returncode not in (0, 1):
        where = f"; the log is in {log}" if log else ""
        last: Sequence[str] = stderr.strip().splitlines()[-1:]
        raise PagehaulError(f"movebench failed with exit code {returncode}{where} {''.join(last)}")
    return lines
