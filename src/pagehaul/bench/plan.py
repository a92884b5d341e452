# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark programs are told to do: how often, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pagehaul.bench.cell import Cell
from pagehaul.bench.known import MEASURES
from pagehaul.bench.machines.places import Place, Turn


@dataclass(frozen=True)
class Effort:
    """How often things are measured.

    All kernels are booted together `boots` times. In a boot every cell is measured in `rounds`
    rounds, which go through all kernels and methods of a shape, so that they see the same noise. A
    cell moves about target_mb MiB a boot, in at least min_reps and at most max_reps repetitions,
    which go there and back where that can be, unless each move counts. A repetition goes on until
    its moves have taken at_least_us microseconds. timeout is for one boot, in seconds.
    """

    boots: int
    rounds: int
    target_mb: int
    min_reps: int
    max_reps: int
    timeout: float
    each_counts: bool = False
    at_least_us: int = 0

    def ways(self, cell: Cell) -> int:
        """Return how many moves make one repetition of a cell at least."""
        return 1 if self.each_counts else cell.ways

    def reps(self, cell: Cell) -> int:
        """Return how many repetitions of a cell make a boot."""
        wanted = (self.target_mb << 20) // cell.shape.bytes
        return min(self.max_reps, max(self.min_reps, wanted))

    def least_us(self, cell: Cell) -> int:
        """Return how long the moves of a repetition take at least, 0 for a single one."""
        if not self.at_least_us or cell.reason or cell.load:
            return 0
        asked = [measure.least_us for measure in MEASURES if measure.name in cell.asks]
        return min((us for us in asked if us is not None), default=self.at_least_us)


# In virtual time a cell comes out the same each time, as long as it lasts long enough for a tick,
# or a thread of the kernel, not to matter. The second repetition shows whether it does.
_LEAST_US = 10_000
_VIRTUAL = Effort(1, 1, 320, 1, 2, 3600.0, at_least_us=_LEAST_US)
_VIRTUAL_FULL = Effort(1, 1, 2048, 2, 3, 8 * 3600.0, at_least_us=2 * _LEAST_US)
_VIRTUAL_FAULTS = Effort(1, 1, 1, 2, 2, 3600.0)
_VIRTUAL_FAULTS_FULL = Effort(1, 1, 1, 5, 5, 4 * 3600.0)

_EFFORTS = {
    ("parallel", True): Effort(2, 3, 48, 3, 18, 900.0),
    ("parallel", False): Effort(4, 3, 1024, 3, 24, 7200.0),
    ("dies", True): Effort(1, 3, 64, 3, 6, 600.0),
    ("dies", False): Effort(2, 3, 1024, 3, 24, 3600.0),
    ("dma", True): Effort(1, 3, 64, 3, 6, 600.0),
    ("dma", False): Effort(2, 3, 1024, 3, 24, 7200.0),
    ("faults", True): Effort(1, 2, 1, 2, 2, 900.0),
    ("faults", False): Effort(2, 5, 1, 10, 10, 7200.0),
    ("fault-icount", True): Effort(1, 1, 1, 5, 5, 600.0),
    ("fault-icount", False): Effort(1, 1, 1, 10, 10, 3600.0),
    ("busy-icount", True): Effort(1, 1, 64, 5, 9, 900.0),
    ("busy-icount", False): Effort(1, 1, 256, 9, 25, 7200.0),
    ("icount", True): Effort(1, 1, 4, 15, 25, 600.0, each_counts=True),
    ("icount", False): Effort(2, 1, 4, 15, 25, 3600.0, each_counts=True),
}

# A move of so many bytes runs long enough to warm up by itself: only the first one of new memory,
# which finds the kernel's free lists as faulting left them, is not timed. Below, the first moves
# of a guest that has waited for its turn are slower, on either kernel.
_LARGE = 64 << 20
_VERY_LARGE = 256 << 20

# A move of no more ends before it would be warm: the knobs of a method have just been set, which
# makes the kernel change its code, and an emulator translate that anew. Each cell warms up.
_SMALL = 2 << 20

# An engine that has just been switched on, as each cell does, is unknown to the kernel, which gives
# it little at first. What counts is how it is used once it is known, which takes so many bytes.
_LEARNING = 160 << 20


def effort_of(place: Place, quick: bool) -> Effort:
    """Return how often things are measured there."""
    if place.clock != "virtual":
        return _EFFORTS[place.kind, quick]
    if place.kind == "faults":
        return _VIRTUAL_FAULTS if quick else _VIRTUAL_FAULTS_FULL
    return _VIRTUAL if quick else _VIRTUAL_FULL


Named = tuple[str, Cell]


def turns(
    cells: Sequence[Named],
    kernels: Sequence[str],
    effort: Effort,
    nodes: tuple[int, int],
    boot: int,
) -> list[Turn]:
    """Return the turns of one boot: shape after shape, in rounds through the kernels and methods.

    The kernels come in one order and in the other by turns, A B, B A, A B: a drift of the host
    that goes on at one pace then touches both alike.
    """
    order = []
    numbered = list(enumerate(cells))
    groups = groupby(numbered, key=lambda entry: (entry[1][0], entry[1][1].shape))
    for members in [list(group) for _, group in groups]:
        for number in range(effort.rounds):
            forward = (number + boot) % 2 == 0
            for kernel in kernels if forward else reversed(kernels):
                mine = [(index, cell) for index, (_, cell) in members if cell.kernel == kernel]
                for place, (index, cell) in enumerate(mine):
                    reps = -(-effort.reps(cell) // effort.rounds)
                    warmups = _warmups(cell, effort, number, place)
                    line = plan_line(index, cell, effort, reps, warmups, nodes)
                    order.append(Turn(kernel, line))
    return order


def _warmups(cell: Cell, effort: Effort, number: int, place: int) -> int:
    """How many moves of a cell are not timed: in which round, and where in its turn."""
    if cell.method == "hybrid":
        return -(-_LEARNING // cell.shape.bytes)
    if cell.load is not None or cell.shape.bytes <= _SMALL:
        return 1
    # What is left of the cell before is not in any figure; of a very large one it matters little.
    if effort.at_least_us and cell.shape.bytes <= _VERY_LARGE:
        return 1
    if cell.shape.bytes < _LARGE:
        return int(number == 0 or place == 0)
    return int(number == 0 and place == 0)


def plan_line(
    index: int, cell: Cell, effort: Effort, reps: int, warmups: int, nodes: tuple[int, int]
) -> str:
    """Return the options of a cell."""
    if cell.load is not None:
        words = [f"--label={index}", f"--reps={reps}", f"--warmups={warmups}"]
        words += [f"--threads={cell.threads}", f"--mb={max(1, cell.shape.bytes >> 20)}"]
        return " ".join([*words, *cell.load.words(), f"--node={nodes[1]}"])
    words = [f"--label={index}", f"--folio-kb={cell.shape.folio_kb}"]
    words += [f"--folios={cell.shape.folios}", f"--reps={reps}", f"--warmups={warmups}"]
    words.append(f"--ways={effort.ways(cell)}")
    if least_us := effort.least_us(cell):
        words.append(f"--at-least={least_us}")
    first, second = cell.nodes or nodes
    words += [f"--callers={cell.callers}", f"--from={first}", f"--to={second}"]
    if cell.shape.hugetlb:
        words.append("--hugetlb")
    if cell.reason:
        words.append(f"--reason={cell.reason}")
    for measure in MEASURES:
        if measure.name in cell.asks:
            words += measure.words(cell.asks[measure.name])
    words += [f"--knob={name}={value}" for name, value in cell.knobs.items()]
    return " ".join(words)
