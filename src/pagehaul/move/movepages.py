# SPDX-License-Identifier: GPL-2.0-only
"""move_pages(2): ask where the pages of a process are, and move them.

ctypes releases the GIL during a system call, so that several threads really move at once.
"""

import ctypes
import errno
import os
import platform
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagehaul.errors import PagehaulError

Addresses = npt.NDArray[np.uint64]
Status = npt.NDArray[np.int32]

# Flags of move_pages(2), include/uapi/linux/mempolicy.h.
MPOL_MF_MOVE = 1 << 1
MPOL_MF_MOVE_ALL = 1 << 2
# Pagehaul's kernel: several CPUs may move the pages of one call.
MPOL_MF_MOVE_MT = 1 << 15

# What the status array holds where the kernel has written nothing: neither a node nor an errno.
UNWRITTEN = -(1 << 30)

# The C library has no wrapper for move_pages(2); numbers from the kernel's syscall tables.
_SYSCALL_NUMBERS = {
    "x86_64": 279,
    "aarch64": 239,
    "riscv64": 239,
    "loongarch64": 239,
    "ppc64le": 301,
    "ppc64": 301,
    "s390x": 310,
}


class PageMover(Protocol):
    """The two uses of move_pages(2) for one process; a test puts a model in its place."""

    def query(self, addresses: Addresses) -> Status:
        """Node of each page, or a negative errno (ENOENT: not present). OSError when refused."""

    def move(self, addresses: Addresses, node: int) -> tuple[int, Status]:
        """Move each page to `node`.

        Returns what the system call returned and the status array, which holds UNWRITTEN where
        the kernel left it alone. The kernel stops early when a list it has collected does not
        move completely: it then returns the number of pages not moved, those it never tried
        included, and writes no status for that list nor for anything behind it. -ENOMEM is
        returned as such, since the pages before the lack were moved; other errors are OSError.
        """


class MovePages:
    """move_pages(2) on the process `pid`; with `move_all` also what other processes map.

    The system call takes a number, which another process may get once this one has ended. So
    `exists`, if given, is asked right before each call; when it says no, ESRCH is raised.
    """

    def __init__(
        self, pid: int, *, move_all: bool = False, exists: Callable[[], bool] | None = None
    ) -> None:
        number = _SYSCALL_NUMBERS.get(platform.machine())
        if number is None:
            raise PagehaulError(
                f"the number of move_pages(2) on {platform.machine()} is not known to Pagehaul: "
                "use migratepages(8) here"
            )
        self._number = ctypes.c_long(number)
        self._pid = ctypes.c_long(pid)
        self._exists = exists
        self._flags = MPOL_MF_MOVE_ALL if move_all else MPOL_MF_MOVE
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long

    def _call(self, addresses: Addresses, nodes: Status | None, status: Status) -> int:
        if self._exists is not None and not self._exists():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        result = self._syscall(
            self._number,
            self._pid,
            ctypes.c_ulong(len(addresses)),
            ctypes.c_void_p(addresses.ctypes.data),
            ctypes.c_void_p(None if nodes is None else nodes.ctypes.data),
            ctypes.c_void_p(status.ctypes.data),
            ctypes.c_long(self._flags),
        )
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(result)

    def share(self) -> None:
        """Let Pagehaul's kernel use several CPUs for each call from now on; OSError elsewhere."""
        before = self._flags
        self._flags |= MPOL_MF_MOVE_MT
        try:
            self.probe()
        except OSError:
            self._flags = before
            raise

    def probe(self) -> None:
        """Move nothing, and let the kernel check process, permission and flags; OSError."""
        nothing = np.zeros(1, np.int32)
        self._call(np.zeros(1, np.uint64)[:0], nothing, nothing)

    def query(self, addresses: Addresses) -> Status:
        """See PageMover."""
        status = np.full(len(addresses), -errno.ENOENT, np.int32)
        if len(addresses):
            self._call(np.ascontiguousarray(addresses), None, status)
        return status

    def move(self, addresses: Addresses, node: int) -> tuple[int, Status]:
        """See PageMover."""
        nodes = np.full(len(addresses), node, np.int32)
        status = np.full(len(addresses), UNWRITTEN, np.int32)
        try:
            return self._call(np.ascontiguousarray(addresses), nodes, status), status
        except OSError as exc:
            if exc.errno != errno.ENOMEM:
                raise
            return -errno.ENOMEM, status
