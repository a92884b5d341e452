# SPDX-License-Identifier: GPL-2.0-only
"""Pages to move, and those among them that were busy."""

import threading
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagehaul.move.movepages import Addresses, Status

Index = npt.NDArray[np.intp]

# More bytes than this that are busy are pinned: to try them again would be in vain.
_FEW_BYTES = 64 << 20


@dataclass
class Batch:
    """Pages to move and what is known of them.

    `cause` is an errno, 0 where none was given; `arrived` says which pages are known to be on their
    target.
    """

    addresses: Addresses
    home: Status
    targets: Status
    page_size: int
    cause: Status
    arrived: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Know of no page yet."""
        self.arrived = np.zeros(len(self.addresses), np.bool_)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "Batch":
        """Return a batch of some of the pages."""
        return Batch(
            self.addresses[chosen],
            self.home[chosen],
            self.targets[chosen],
            self.page_size,
            self.cause[chosen],
        )

    @property
    def size(self) -> int:
        """Bytes of all pages."""
        return len(self.addresses) * self.page_size

    @property
    def everything(self) -> Index:
        """The index of every page."""
        return np.arange(len(self.addresses))


class Busy:
    """Pages that were busy when they were moved, to be tried again; for several threads."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._many = False
        self._lock = threading.Lock()

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What to try again."""
        return tuple(self._batches)

    def set_aside(self, settled: Batch, busy: Batch) -> int:
        """Keep of `settled` what is `busy`; return the bytes given up, when they are too many."""
        with self._lock:
            self._batches = [batch for batch in self._batches if batch is not settled]
            if len(busy.addresses):
                self._batches.append(busy)
            held = sum(batch.size for batch in self._batches)
            self._many |= held > _FEW_BYTES
            if not self._many:
                return 0
            self._batches = []
            return held

    def give_up(self) -> int:
        """Forget what is kept, and return how many bytes that is."""
        left, self._batches = self._batches, []
        return sum(batch.size for batch in left)


def take_turns(choices: npt.NDArray[np.bool_]) -> Index:
    """Return a column for each row, one that is True: of several the rows take turns."""
    turn = np.arange(len(choices)) % choices.sum(axis=1)
    nth = np.cumsum(choices, axis=1) == turn[:, None] + 1
    column: Index = np.argmax(nth & choices, axis=1)
    return column


def alignment_of(addresses: Addresses) -> Addresses:
    """Return the largest power of two that each address is a multiple of."""
    aligned: Addresses = addresses & (~addresses + np.uint64(1))
    return aligned


def best_aligned(addresses: Addresses, grain: int) -> npt.NDArray[np.bool_]:
    """Tell which of ascending addresses are the best aligned ones of their `grain` bytes."""
    alignment = alignment_of(addresses)
    piece = addresses // np.uint64(grain)
    first_of_piece = np.flatnonzero(np.diff(piece, prepend=piece[:1] + np.uint64(1)))
    best = np.maximum.reduceat(alignment, first_of_piece)
    sizes = np.diff(np.append(first_of_piece, len(piece)))
    chosen: npt.NDArray[np.bool_] = alignment == np.repeat(best, sizes)
    return chosen
