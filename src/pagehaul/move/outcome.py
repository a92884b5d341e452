# SPDX-License-Identifier: GPL-2.0-only
"""What became of pages that were to move, and why some stayed."""

import errno
import os
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What became of the pages that were to move, in bytes."""

    moved: int = 0
    gone: int = 0  # freed, swapped out or moved by somebody else before
    left: Counter[int] = field(default_factory=Counter)  # by errno

    @property
    def settled(self) -> int:
        """All bytes accounted for."""
        return self.moved + self.gone + self.left.total()

    def add(self, other: "Outcome") -> None:
        """Add the figures of `other`."""
        self.moved += other.moved
        self.gone += other.gone
        self.left.update(other.left)


def describe(cause: int) -> str:
    """Say what an errno of a page that stayed means, in the words of a user."""
    reasons = {
        errno.EBUSY: "pinned or in use by the kernel",
        errno.EACCES: "shared with other processes; --all moves them",
        errno.ENOMEM: "no room on the destination",
        errno.EINTR: "interrupted",
        errno.EFAULT: "not a page that can be moved",
        errno.EIO: "could not be written back",
    }
    return reasons.get(cause, os.strerror(cause))
