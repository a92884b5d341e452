# SPDX-License-Identifier: GPL-2.0-only
"""Pages to move, and what becomes of them."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagehaul.move.movepages import Addresses, Status

Index = npt.NDArray[np.intp]


@dataclass
class Batch:
    """Pages to move and what is known of them.

    `cause` is an errno, 0 where none was given; `arrived` says which pages are known to be on their
    target; `clean` says that no call failed to move a page.
    """

    addresses: Addresses
    home: Status
    targets: Status
    page_size: int
    cause: Status
    clean: bool = True
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
            self.clean,
        )

    @property
    def size(self) -> int:
        """Bytes of all pages."""
        return len(self.addresses) * self.page_size

    @property
    def everything(self) -> Index:
        """The index of every page."""
        return np.arange(len(self.addresses))
