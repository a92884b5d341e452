# SPDX-License-Identifier: GPL-2.0-only
"""A process, held so that it is no other, and which pages of its mappings are present."""

import contextlib
import enum
import errno
import fcntl
import functools
import itertools
import os
import select
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

import numpy as np
import numpy.typing as npt

from pagehaul.errors import NoProcessError, PagehaulError
from pagehaul.host.nodes import parse_list
from pagehaul.move.frames import Entries, read_entries
from pagehaul.move.mappings import BASE_PAGE, Mapping, parse_maps, parse_numa_maps
from pagehaul.move.movepages import Addresses
from pagehaul.move.selection import has_ended

_THP_SIZE_FILE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")

# PAGEMAP_SCAN, include/uapi/linux/fs.h: since Linux 6.7.
_PAGEMAP_SCAN = 0xC0606610
_PAGE_IS_PRESENT = 1 << 3
_PAGE_IS_PFNZERO = 1 << 5
_PAGE_IS_HUGE = 1 << 6
_SCAN_REGIONS = 4096

# Bytes in memory that one search finds at most. It looks at as many addresses, and at twice as many
# after each search that finds little, at more after one that finds nothing. A search holds the lock
# of the address space, and the first pages can move when the first search has ended, which is a
# short one.
_SCAN_BYTES = 64 << 20
_FIRST_SCAN_BYTES = 4 << 20

# Bytes in memory that a search finds at most after one of huge pages alone: each is one entry.
_SCAN_HUGE_BYTES = 512 << 20

# Without PAGEMAP_SCAN: entries of /proc/PID/pagemap read at once (8 bytes each).
_PAGEMAP_ENTRIES = 1 << 18
_PAGEMAP_PRESENT = np.uint64(1 << 63)

# A hole smaller than this many bytes is passed on with its surroundings: the kernel answers
# ENOENT for its pages faster than Python handles two regions.
_SMALL_HOLE = 16 * BASE_PAGE


class Kind(enum.Enum):
    """How the present pages of a region are mapped."""

    BASE = "base"  # by page table entries: small folios, and large ones nobody tells us about
    THP = "thp"  # each aligned piece of thp_size() bytes is one transparent huge page
    HUGETLB = "hugetlb"  # each page is one hugetlb page of the mapping's size


@functools.cache
def thp_size() -> int:
    """Bytes of a transparent huge page that one PMD maps; 2 MB where the kernel does not say."""
    try:
        return int(_THP_SIZE_FILE.read_text())
    except (OSError, ValueError):
        return 2 << 20


@dataclass(frozen=True)
class Regions:
    """Present parts of a mapping, ascending: [starts[i], ends[i])."""

    kind: Kind
    page_size: int
    starts: Addresses
    ends: Addresses


class NoMemoryError(PagehaulError):
    """A process has no memory of its own: it is a kernel thread."""


class Process:
    """A running process, held by its /proc directory: a later one with the same PID is not it."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        self._pagemap = -1
        self._pidfd = -1
        self._can_scan = True
        self._found = np.zeros((_SCAN_REGIONS, 3), np.uint64)
        try:
            self._dir = os.open(proc / str(pid), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as exc:
            raise NoProcessError(f"there is no process {pid}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._pagemap, self._pidfd, self._dir):
            if descriptor >= 0:
                os.close(descriptor)

    def _open(self, name: str) -> int:
        return os.open(name, os.O_RDONLY, dir_fd=self._dir)

    @contextlib.contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        """Turn what goes wrong with a file of the process's directory into PagehaulError."""
        try:
            yield
        except PermissionError as exc:
            raise PagehaulError(
                f"no permission to look into process {self.pid}: run as its user or as root"
            ) from exc
        except (FileNotFoundError, ProcessLookupError) as exc:
            if not self.alive():
                raise NoProcessError(f"there is no process {self.pid}: it has ended") from exc
            if isinstance(exc, ProcessLookupError):
                # Newer kernels answer so for a kernel thread, older ones with no line.
                raise self._no_memory() from exc
            raise PagehaulError(
                f"this kernel has no /proc/PID/{name} (CONFIG_NUMA, CONFIG_PROC_PAGE_MONITOR)"
            ) from exc

    def _text(self, name: str) -> TextIO:
        return open(self._open(name), encoding="utf-8", errors="replace", newline="\n")

    def _read(self, name: str) -> str:
        with self._guard(name), self._text(name) as file:
            return file.read()

    def _lines(self, name: str) -> Iterator[str]:
        with self._guard(name), self._text(name) as file:
            yield from file

    def _some_lines(self, name: str) -> Iterator[str]:
        """Return the lines of a file that has some, unless the process has no memory."""
        lines = self._lines(name)
        first = next(lines, "")
        if not first.strip():
            raise self._no_memory()
        return itertools.chain((first,), lines)

    def _no_memory(self) -> PagehaulError:
        what = f"process {self.pid} has no pages to move"
        if self.alive():
            return NoMemoryError(f"{what}: it has no memory of its own")
        return NoProcessError(f"{what}: it has ended")

    def status(self) -> dict[str, str]:
        """Return the fields of /proc/PID/status."""
        lines = (line.partition(":") for line in self._read("status").splitlines())
        return {name: value.strip() for name, _, value in lines}

    def alive(self) -> bool:
        """Whether the process still has its memory (a zombie has not)."""
        try:
            with open(self._open("stat"), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return False
        return not has_ended(text)

    def resident(self) -> tuple[int, int]:
        """Return about how many bytes the process has in memory, and those of hugetlb pages.

        Raises NoMemoryError for a kernel thread, and NoProcessError for one that has ended.
        """
        status = self.status()
        if "VmRSS" not in status:
            raise self._no_memory()
        rss, hugetlb = (
            int(status.get(field, "0 kB").split()[0]) << 10 for field in ("VmRSS", "HugetlbPages")
        )
        return rss + hugetlb, hugetlb

    def allowed_nodes(self) -> tuple[int, ...] | None:
        """Nodes that the process's cpuset permits; None where the kernel does not say."""
        text = self.status().get("Mems_allowed_list")
        return parse_list(text) if text else None

    def name(self) -> str:
        """Return the command name of the process."""
        return self._read("comm").strip()

    def exists(self) -> bool:
        """Whether the process has its number still, as a zombie has."""
        try:
            os.close(self._open("stat"))
        except OSError:
            return False
        return True

    def hold(self) -> Callable[[], bool]:
        """Return what tells fast, and to several threads, whether the process still exists.

        It asks a pidfd, where the kernel has them (Linux 5.3 and newer), else exists(). Raises
        NoProcessError when the process has ended.
        """
        # PID may be a thread, for which there is no pidfd: then exists() has to do.
        with contextlib.suppress(OSError):
            self._pidfd = os.pidfd_open(self.pid)
        if not self.exists():
            # The pidfd may hold another process already.
            raise NoProcessError(f"there is no process {self.pid}: it has ended")
        return self.exists if self._pidfd < 0 else self._not_ended

    def _not_ended(self) -> bool:
        """Whether the pidfd is silent: it can be read when the last thread has ended."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def numa_maps(self) -> Iterator[str]:
        """Read the lines of numa_maps, one at a time.

        Raises NoMemoryError for a kernel thread, NoProcessError for one that has ended, and
        PagehaulError without permission, all before it returns.
        """
        return self._some_lines("numa_maps")

    def mappings(self, look: bool) -> Iterator[Mapping]:
        """Read the mappings, ascending, one at a time.

        With `look` only those with pages in memory, and with where these are; else all of them, of
        a process without hugetlb pages. Raises as numa_maps() does.
        """
        if look:
            return parse_numa_maps(self.numa_maps(), self._lines("maps"))
        return parse_maps(self._some_lines("maps"))

    def present(self, mapping: Mapping) -> Iterator[Regions]:
        """Present parts of `mapping`, ascending; nothing when the process has ended."""
        if mapping.page_size != BASE_PAGE:
            bounds = np.array([[mapping.start], [mapping.end]], np.uint64)
            yield Regions(Kind.HUGETLB, mapping.page_size, bounds[0], bounds[1])
            return
        try:
            if self.can_scan():
                yield from self._scan(mapping)
            else:
                yield from self._read_pagemap(mapping)
        except (NoProcessError, ProcessLookupError):
            return

    def entries(self, start: int, end: int) -> Entries:
        """Return what pagemap says of the base pages of [start, end), after can_scan()."""
        return read_entries(self._pagemap, start, end)

    def same_memory(self) -> bool:
        """Whether the process still has the memory that was searched first.

        It has another one after it has executed another program.
        """
        return self._pagemap < 0 or len(os.pread(self._pagemap, 8, 0)) == 8

    def can_scan(self) -> bool:
        """Whether the kernel has PAGEMAP_SCAN, which takes no time for what is not there.

        Raises PagehaulError without permission, and NoProcessError when the process has ended.
        """
        if self._pagemap < 0:
            with self._guard("pagemap"):
                self._pagemap = self._open("pagemap")
            try:
                # Of nothing.
                fcntl.ioctl(self._pagemap, _PAGEMAP_SCAN, self._scan_arg(0, 0), True)
            except OSError as exc:
                if exc.errno not in (errno.ENOTTY, errno.EINVAL):
                    raise
                self._can_scan = False
        return self._can_scan

    def _scan_arg(self, start: int, end: int, most: int = _SCAN_BYTES) -> "array[int]":
        """Return a struct pm_scan_arg: base pages, and huge ones marked, but the zero page."""
        arg = array("Q", [0] * 12)
        arg[0] = 8 * len(arg)
        arg[2], arg[3] = start, end
        arg[5], arg[6] = self._found.ctypes.data, len(self._found)
        arg[7] = most // BASE_PAGE
        arg[8] = _PAGE_IS_PFNZERO  # category_inverted: present, and not the zero page
        arg[9] = _PAGE_IS_PRESENT | _PAGE_IS_PFNZERO
        arg[11] = _PAGE_IS_HUGE
        return arg

    def _scan(self, mapping: Mapping) -> Iterator[Regions]:
        start, step, most = mapping.start, _FIRST_SCAN_BYTES, _SCAN_BYTES
        while start < mapping.end:
            # At a multiple, so that few huge pages are cut.
            unit = min(step, _SCAN_BYTES)
            end = min(mapping.end, start // unit * unit + step)
            arg = self._scan_arg(start, end, most)
            count = fcntl.ioctl(self._pagemap, _PAGEMAP_SCAN, arg, True)
            yield from _split_by_kind(self._found[:count])
            # Where it was full 512 regions before the last one, the kernel tells that place.
            searched = max(arg[4], int(self._found[count - 1, 1]) if count else 0)
            if searched <= start:
                return
            start = searched
            found = int((self._found[:count, 1] - self._found[:count, 0]).sum())
            huge = (self._found[:count, 2] & np.uint64(_PAGE_IS_HUGE)).all()
            most = _SCAN_HUGE_BYTES if found and huge else _SCAN_BYTES
            if 2 * found > _SCAN_BYTES:
                step = most
            else:
                step *= 2 if found else 16

    def _read_pagemap(self, mapping: Mapping) -> Iterator[Regions]:
        start = mapping.start
        while start < mapping.end:
            count = min((mapping.end - start) // BASE_PAGE, _PAGEMAP_ENTRIES)
            data = os.pread(self._pagemap, 8 * count, start // BASE_PAGE * 8)
            if len(data) < 8:
                return
            entries = np.frombuffer(data, np.uint64)
            present = np.zeros(len(entries) + 2, np.int8)
            present[1:-1] = (entries & _PAGEMAP_PRESENT) != 0
            edges = np.diff(present)
            base = np.uint64(start)
            size = np.uint64(BASE_PAGE)
            regions = _join_small_holes(
                base + np.flatnonzero(edges == 1).astype(np.uint64) * size,
                base + np.flatnonzero(edges == -1).astype(np.uint64) * size,
            )
            if len(regions[0]):
                yield Regions(Kind.BASE, BASE_PAGE, *regions)
            start += len(entries) * BASE_PAGE


def _join_small_holes(starts: Addresses, ends: Addresses) -> tuple[Addresses, Addresses]:
    if len(starts) < 2:
        return starts, ends
    wide = starts[1:] - ends[:-1] >= np.uint64(_SMALL_HOLE)
    edge = np.array([True])
    return starts[np.concatenate((edge, wide))], ends[np.concatenate((wide, edge))]


def _split_by_kind(found: npt.NDArray[np.uint64]) -> Iterator[Regions]:
    """Turn what PAGEMAP_SCAN found into regions: base pages, then transparent huge pages."""
    size = thp_size()
    starts, ends = found[:, 0], found[:, 1]
    whole = ((starts | ends) & np.uint64(size - 1)) == 0
    huge = ((found[:, 2] & np.uint64(_PAGE_IS_HUGE)) != 0) & whole
    if not huge.all():
        yield Regions(Kind.BASE, BASE_PAGE, *_join_small_holes(starts[~huge], ends[~huge]))
    if huge.any():
        yield Regions(Kind.THP, size, starts[huge].copy(), ends[huge].copy())
