# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark programs are told to do: in which order, and with which options."""

from collections.abc import Sequence
from itertools import groupby

from pagehaul.bench.cell import Cell
from pagehaul.bench.effort import Effort
from pagehaul.bench.known import MEASURES
from pagehaul.bench.machines.places import Turn

# A move of so many bytes runs long enough to warm up by itself: only the first one of new memory,
# which finds the kernel's free lists as faulting left them, is not timed. Below, the first moves
# of a guest that has waited for its turn are slower, on either kernel.
_LARGE = 64 << 20
_VERY_LARGE = 256 << 20

# A move of no more ends before it would be warm: the knobs of a method have just been set, which
# makes the kernel change its code, and an emulator translate that again. Each cell warms up.
_SMALL = 2 << 20

# An engine that has just been switched on, as each cell does, is unknown to the kernel, which gives
# it little at first. Its use once it is known counts, and learning that takes so many bytes.
_LEARNING = 160 << 20


# Constants of the kernel, which those built here let experiments change in debugfs.
_CONSTANTS = ("batch_pages", "chunk_kb", "parallel_batches")

Named = tuple[str, Cell]


def _place(knob: str) -> str:
    return f"debug.{knob}" if knob in _CONSTANTS else knob


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
    # Leftovers of the cell before must be in no figure; in a very large one they matter little.
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
    first, second = cell.nodes or nodes
    if cell.caller == "target":
        first, second = second, first
    knobs = [f"--knob={_place(name)}={value}" for name, value in cell.knobs.items()]
    if cell.scene is not None:
        words = [f"--label={index}", f"--reps={reps}", f"--from={first}", f"--to={second}"]
        return " ".join([*words, *cell.scene.words(), *knobs])
    words = [f"--label={index}", f"--folio-kb={cell.shape.folio_kb}"]
    words += [f"--folios={cell.shape.folios}", f"--reps={reps}", f"--warmups={warmups}"]
    words.append(f"--ways={effort.ways(cell)}")
    if least_us := effort.least_us(cell):
        words.append(f"--at-least={least_us}")
    words += [f"--callers={cell.callers}", f"--from={first}", f"--to={second}"]
    if cell.caller is not None:
        words.append("--one-way")
    if cell.helpers is not None:
        words.append(f"--helpers={first if cell.helpers == 'source' else second}")
    if cell.shape.hugetlb:
        words.append("--hugetlb")
    if cell.reason:
        words.append(f"--reason={cell.reason}")
    for measure in MEASURES:
        if measure.name in cell.asks:
            words += measure.words(cell.asks[measure.name])
    return " ".join([*words, *knobs])
