# SPDX-License-Identifier: GPL-2.0-only
"""The mappings of a process and where their pages are, read a line at a time."""

import mmap
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BASE_PAGE = mmap.PAGESIZE

# Mappings of base pages that are no further apart than this many bytes are searched together,
# whatever is between them: a process may have more than a million small ones.
_SMALL_GAP = 1 << 20

# Mappings of pages that belong to the kernel, and can never move.
_OF_KERNEL = ("[vdso]", "[vsyscall]", "[uprobes]")

# Fields of numa_maps. In the name of a file, a space is written as \040.
_FIELDS = re.compile(r" (?:N(\d+)=(\d+)|kernelpagesize_kB=(\d+))")


@dataclass(frozen=True)
class Mapping:
    """One mapping (VMA); with empty `node_bytes` its pages are the kernel's."""

    start: int
    end: int
    page_size: int  # bytes; of hugetlb pages, else the base page's
    node_bytes: dict[int, int] | None  # bytes in memory on each node, None if nobody has looked
    of_file: bool = False  # of hugetlb pages that are those of a file

    @property
    def only_node(self) -> int | None:
        """The node that all of its pages were on, None if there are several, or if unknown."""
        nodes = self.node_bytes or {}
        return next(iter(nodes)) if len(nodes) == 1 else None

    @property
    def of_kernel(self) -> bool:
        """Whether its pages are the kernel's."""
        return self.node_bytes is not None and not self.node_bytes

    def may_be_on(self, nodes: Iterable[int]) -> bool:
        """Whether some of its pages are on `nodes`, as far as is known."""
        return self.node_bytes is None or any(self.node_bytes.get(node, 0) for node in nodes)


def parse_numa_maps(numa_maps: Iterable[str], maps: Iterable[str]) -> Iterator[Mapping]:
    """Join lines of /proc/PID/numa_maps (where pages are) and of maps (where mappings end).

    Both ascend, so that one line of each is held at a time. Mappings without a page in memory are
    left out, and so is what appears in one file only because the process changed its mappings
    between the two reads.
    """
    bounds = _bounds(maps)
    nothing = (-1, -1, False, False)
    low, high, of_kernel, shared = next(bounds, nothing)
    for line in numa_maps:
        size, pages = _parse_line(line)
        start = int(line.partition(" ")[0], 16)
        while 0 <= low < start:
            low, high, of_kernel, shared = next(bounds, nothing)
        if low != start:
            continue
        if of_kernel:
            yield Mapping(start, high, size, {})
        elif pages:
            there = {node: n * size for node, n in pages.items()}
            yield Mapping(start, high, size, there, shared and size > BASE_PAGE)


def parse_maps(maps: Iterable[str]) -> Iterator[Mapping]:
    """Read lines of /proc/PID/maps of a process without hugetlb pages.

    Nothing says where the pages are. But a line of numa_maps takes the kernel a look at each page.
    """
    for low, high, of_kernel, _ in _bounds(maps):
        yield Mapping(low, high, BASE_PAGE, {} if of_kernel else None)


def _bounds(maps: Iterable[str]) -> Iterator[tuple[int, int, bool, bool]]:
    """Yield where each mapping begins and ends, if its pages are the kernel's, and if shared."""
    for line in maps:
        place, _, rest = line.partition(" ")
        low, _, high = place.partition("-")
        yield int(low, 16), int(high, 16), line.rstrip().endswith(_OF_KERNEL), rest[3:4] == "s"


def _parse_line(line: str) -> tuple[int, dict[int, int]]:
    """Read a line of numa_maps: the size of a page, and the pages on each node."""
    size = BASE_PAGE
    pages: dict[int, int] = {}
    for node, count, kilobytes in _FIELDS.findall(line):
        if node:
            pages[int(node)] = int(count)
        else:
            size = int(kilobytes) << 10
    return size, pages


def bytes_by_node(numa_maps: Iterable[str], nodes: Iterable[int]) -> dict[int, int]:
    """Add up lines of /proc/PID/numa_maps: the bytes on each of `nodes`."""
    found = dict.fromkeys(nodes, 0)
    for line in numa_maps:
        size, pages = _parse_line(line)
        for node, count in pages.items():
            if node in found:
                found[node] += count * size
    return found


def spans(mappings: Iterable[Mapping], nodes: Iterable[int], wide: bool) -> Iterator[Mapping]:
    """Join mappings with pages on `nodes` to what is searched together, as if it were one mapping.

    Mappings of base pages are joined across small gaps, with `wide` across all gaps in which no
    other pages are. None is joined across pages of the kernel.
    """
    wanted = tuple(nodes)
    run: Mapping | None = None
    empty = True  # no pages lie between the run and here
    fence = False  # pages of the kernel do
    for mapping in mappings:
        if not mapping.may_be_on(wanted):
            empty = False
            fence |= mapping.of_kernel
            continue
        if run is not None and (
            run.page_size == mapping.page_size == BASE_PAGE
            and not fence
            and ((wide and empty) or mapping.start - run.end <= _SMALL_GAP)
        ):
            held = _sum(run.node_bytes, mapping.node_bytes)
            run = Mapping(run.start, mapping.end, BASE_PAGE, held)
        else:
            if run is not None:
                yield run
            run = mapping
        empty, fence = True, False
    if run is not None:
        yield run


def _sum(one: dict[int, int] | None, other: dict[int, int] | None) -> dict[int, int] | None:
    """Add up bytes on nodes; None where one of them is not known."""
    if one is None or other is None:
        return None
    return {node: one.get(node, 0) + other.get(node, 0) for node in one | other}
