# SPDX-License-Identifier: GPL-2.0-only
"""The address space of a process: its mappings, where their pages are, which are present."""

import enum
import errno
import fcntl
import mmap
import os
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from pagehaul.errors import PagehaulError
from pagehaul.move.movepages import Addresses
from pagehaul.move.nodelist import parse_list

BASE_PAGE = mmap.PAGESIZE

_THP_SIZE_FILE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")

# PAGEMAP_SCAN, include/uapi/linux/fs.h: since Linux 6.7.
_PAGEMAP_SCAN = 0xC0606610
_PAGE_IS_PRESENT = 1 << 3
_PAGE_IS_PFNZERO = 1 << 5
_PAGE_IS_HUGE = 1 << 6
_SCAN_REGIONS = 4096

# Without PAGEMAP_SCAN: entries of /proc/PID/pagemap read at once (8 bytes each).
_PAGEMAP_ENTRIES = 1 << 18
_PAGEMAP_PRESENT = np.uint64(1 << 63)

# A hole smaller than this many bytes is passed on with its surroundings: the kernel answers
# ENOENT for its pages faster than Python handles two regions.
_SMALL_HOLE = 16 * BASE_PAGE

_NODE_FIELD = re.compile(r"N(\d+)=(\d+)")
_SIZE_FIELD = re.compile(r"kernelpagesize_kB=(\d+)")


class Kind(enum.Enum):
    """How the present pages of a region are mapped."""

    BASE = "base"  # by page table entries: small folios, and large ones nobody tells us about
    THP = "thp"  # each aligned piece of thp_size() bytes is one transparent huge page
    HUGETLB = "hugetlb"  # each page is one hugetlb page of the mapping's size


def thp_size() -> int:
    """Bytes of a transparent huge page that one PMD maps; 2 MB where the kernel does not say."""
    try:
        return int(_THP_SIZE_FILE.read_text())
    except (OSError, ValueError):
        return 2 << 20


@dataclass(frozen=True)
class Mapping:
    """One mapping (VMA) with pages in memory."""

    start: int
    end: int
    page_size: int  # bytes; of hugetlb pages, else the base page's
    node_bytes: dict[int, int]  # bytes in memory on each node

    def bytes_on(self, nodes: Iterable[int]) -> int:
        """Bytes of this mapping on `nodes`."""
        return sum(self.node_bytes.get(node, 0) for node in nodes)


@dataclass(frozen=True)
class Regions:
    """Present parts of a mapping, ascending: [starts[i], ends[i])."""

    kind: Kind
    page_size: int
    starts: Addresses
    ends: Addresses


def parse_numa_maps(numa_maps: str, maps: str) -> list[Mapping]:
    """Join /proc/PID/numa_maps (where pages are) with /proc/PID/maps (where mappings end).

    Mappings without a page in memory are left out, and so is what appears in one file only
    because the process changed its mappings between the two reads.
    """
    ends = {}
    for line in maps.splitlines():
        first, _, last = line.partition(" ")[0].partition("-")
        ends[int(first, 16)] = int(last, 16)
    mappings = []
    for line in numa_maps.splitlines():
        fields = line.split()
        start = int(fields[0], 16)
        size = BASE_PAGE
        pages: dict[int, int] = {}
        for field in fields[2:]:
            if match := _NODE_FIELD.fullmatch(field):
                pages[int(match[1])] = int(match[2])
            elif match := _SIZE_FIELD.fullmatch(field):
                size = int(match[1]) << 10
        if pages and start in ends:
            node_bytes = {node: count * size for node, count in pages.items()}
            mappings.append(Mapping(start, ends[start], size, node_bytes))
    return mappings


class Process:
    """A running process, held by its /proc directory: a later one with the same PID is not it."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        self._pagemap = -1
        self._can_scan = True
        try:
            self._dir = os.open(proc / str(pid), os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as exc:
            raise PagehaulError(f"there is no process {pid}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pagemap >= 0:
            os.close(self._pagemap)
        os.close(self._dir)

    def _open(self, name: str) -> int:
        return os.open(name, os.O_RDONLY, dir_fd=self._dir)

    def _read(self, name: str) -> str:
        try:
            with open(self._open(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except PermissionError as exc:
            raise PagehaulError(
                f"no permission to look into process {self.pid}: run as its user or as root"
            ) from exc
        except (FileNotFoundError, ProcessLookupError) as exc:
            if not self.alive():
                raise PagehaulError(f"there is no process {self.pid}: it has ended") from exc
            if isinstance(exc, ProcessLookupError):
                return ""  # newer kernels answer so for a kernel thread, older ones with no line
            raise PagehaulError(
                f"this kernel has no /proc/PID/{name} (CONFIG_NUMA, CONFIG_PROC_PAGE_MONITOR)"
            ) from exc

    def _status_field(self, field: str) -> str | None:
        for line in self._read("status").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
        return None

    def alive(self) -> bool:
        """Whether the process still has its memory (a zombie has not)."""
        try:
            with open(self._open("stat"), encoding="utf-8", errors="replace") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZXx"

    def allowed_nodes(self) -> tuple[int, ...] | None:
        """Nodes that the process's cpuset permits; None where the kernel does not say."""
        text = self._status_field("Mems_allowed_list")
        return parse_list(text) if text else None

    def name(self) -> str:
        """Return the command name of the process."""
        return self._read("comm").strip()

    def mappings(self) -> list[Mapping]:
        """Read the mappings with pages in memory, ascending.

        Raises PagehaulError for a kernel thread, a zombie, and without permission.
        """
        numa_maps = self._read("numa_maps")
        if not numa_maps.strip():
            why = "it has no memory of its own" if self.alive() else "it has ended"
            raise PagehaulError(f"process {self.pid} has no pages to move: {why}")
        return parse_numa_maps(numa_maps, self._read("maps"))

    def present(self, mapping: Mapping) -> Iterator[Regions]:
        """Present parts of `mapping`, ascending; nothing when the process has ended meanwhile."""
        if mapping.page_size != BASE_PAGE:
            bounds = np.array([[mapping.start], [mapping.end]], np.uint64)
            yield Regions(Kind.HUGETLB, mapping.page_size, bounds[0], bounds[1])
            return
        try:
            if self._pagemap < 0:
                self._pagemap = self._open("pagemap")
            if self._can_scan:
                yield from self._scan(mapping)
            else:
                yield from self._read_pagemap(mapping)
        except (FileNotFoundError, ProcessLookupError):
            return

    def _scan(self, mapping: Mapping) -> Iterator[Regions]:
        found = np.zeros((_SCAN_REGIONS, 3), np.uint64)
        start = mapping.start
        while start < mapping.end:
            arg = array("Q", [0] * 12)  # struct pm_scan_arg
            arg[0] = 8 * len(arg)
            arg[2], arg[3] = start, mapping.end
            arg[5], arg[6] = found.ctypes.data, len(found)
            arg[8] = _PAGE_IS_PFNZERO  # category_inverted: present, and not the zero page
            arg[9] = _PAGE_IS_PRESENT | _PAGE_IS_PFNZERO
            arg[11] = _PAGE_IS_HUGE
            try:
                count = fcntl.ioctl(self._pagemap, _PAGEMAP_SCAN, arg, True)
            except OSError as exc:
                if exc.errno not in (errno.ENOTTY, errno.EINVAL):
                    raise
                self._can_scan = False
                yield from self._read_pagemap(mapping)
                return
            yield from _split_by_kind(found[:count])
            if arg[4] <= start:  # walk_end
                return
            start = arg[4]

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
