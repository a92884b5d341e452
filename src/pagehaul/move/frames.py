# SPDX-License-Identifier: GPL-2.0-only
"""On which node a page is, by the number of its frame.

The kernel shows the numbers in /proc/PID/pagemap to whoever has CAP_SYS_ADMIN. To read them takes a
fraction of the time in which move_pages(2) tells the node of each page.
"""

import errno
import mmap
import os
import platform
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.movepages import UNWRITTEN, Status

_NODES = Path("/sys/devices/system/node")
_BLOCK_BYTES = Path("/sys/devices/system/memory/block_size_bytes")

# An entry of pagemap, Documentation/admin-guide/mm/pagemap.rst; bit 63 is set for a page in memory.
_ENTRY_BYTES = 8
_FRAME = np.uint64((1 << 55) - 1)

# One zero page is all that other machines have; on these there are several.
_MANY_ZERO_PAGES = ("mips", "mips64", "s390x")

Entries = npt.NDArray[np.uint64]


class Frames:
    """Nodes by frames: block i of memory, of `per_block` frames (2^n), is on node `nodes[i]`.

    It is UNWRITTEN for a block of several nodes, or of none. `zero` is the frame of the zero page.
    """

    def __init__(self, nodes: Status, per_block: int, zero: int) -> None:
        # The last one is for frames of memory that came later.
        self._nodes = np.append(nodes, np.int32(UNWRITTEN))
        self._shift = per_block.bit_length() - 1
        self._zero = zero

    @classmethod
    def find(cls, nodes: Path = _NODES, block_bytes: Path = _BLOCK_BYTES) -> Self | None:
        """Read which memory is on which node; None where the kernel does not say all of it."""
        if platform.machine() in _MANY_ZERO_PAGES:
            return None
        try:
            zero = _zero_frame()
            per_block = int(block_bytes.read_text(), 16) // BASE_PAGE
            blocks = [
                (int(name.removeprefix("memory")), int(node.name.removeprefix("node")))
                for node in nodes.glob("node[0-9]*")
                for name in os.listdir(node)
                if name.startswith("memory") and name[6:].isdecimal()
            ]
        except (OSError, ValueError):
            return None
        if not zero or not blocks:
            return None
        table = np.full(max(block for block, _ in blocks) + 1, UNWRITTEN, np.int32)
        for block, node in blocks:
            # A block that a second node names as well is on both.
            table[block] = node if table[block] == UNWRITTEN else -1
        table[table == -1] = UNWRITTEN
        return cls(table, per_block, zero)

    def nodes(self, entries: Entries) -> Status:
        """Return the node for each entry of pagemap: -ENOENT absent, UNWRITTEN not known."""
        frames = (entries & _FRAME).view(np.int64)
        found: Status = self._nodes.take(frames >> self._shift, mode="clip")
        # The sign is what says that a page is present.
        absent = (entries.view(np.int64) >= 0) | (frames == self._zero)
        if absent.any():
            found[absent] = -errno.ENOENT
        return found


def read_entries(pagemap: int, start: int, end: int) -> Entries:
    """Read the entries of [start, end) from an open pagemap; zeros where there are none."""
    entries = np.zeros((end - start) // BASE_PAGE, np.uint64)
    done = 0
    while done < len(entries):
        place = (start // BASE_PAGE + done) * _ENTRY_BYTES
        count = os.preadv(pagemap, [entries[done:].data], place)
        if not count:
            break
        done += count // _ENTRY_BYTES
    return entries


def _zero_frame() -> int:
    """Return the frame of the zero page, which is what reading untouched memory finds; 0: hidden.

    Raises OSError without pagemap.
    """
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        # Memory that is shared would get a page of its own.
        with mmap.mmap(-1, BASE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            address = np.frombuffer(memory, np.uint8).ctypes.data
            if memory[0]:
                return 0
            return int(read_entries(pagemap, address, address + BASE_PAGE)[0] & _FRAME)
    finally:
        os.close(pagemap)
