# SPDX-License-Identifier: GPL-2.0-only
"""Which page goes to which node, and the parts of an address space that are moved in one go."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagehaul.move.addrspace import Kind, Process
from pagehaul.move.mappings import Mapping
from pagehaul.move.movepages import Addresses, Status

# Target of a page that stays where it is.
STAY = -1

# Bytes of one window: large enough that what a call costs by itself (it drains the per-CPU page
# lists of the whole machine) is small beside the moving, small enough for a live progress bar.
_SMALLEST_WINDOW = 8 << 20
_LARGEST_WINDOW = 256 << 20

# Parts of one window at most, however sparse they are, but for those of the last huge page.
_MOST_PARTS = 4096


def is_one_of(numbers: Status, wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which numbers are among a few `wanted` ones.

    numpy.isin() would sort, and import more than all else that is needed here.
    """
    found = np.zeros(len(numbers), np.bool_)
    for each in wanted:
        found |= numbers == each
    return found


@dataclass(frozen=True)
class Plan:
    """Which node each page goes to.

    As many TO as FROM nodes: the pages of the n-th FROM node go to the n-th TO node, as
    migratepages(8) does it. Otherwise pages that are on a TO node already stay, and the others
    are spread evenly over the TO nodes, one aligned piece of `grain` bytes after the other.
    """

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    grain: int
    complete: bool = False  # no node with memory is missing in both

    @property
    def paired(self) -> bool:
        """Whether each FROM node has its own TO node."""
        return len(self.sources) == len(self.destinations)

    @property
    def moving(self) -> tuple[int, ...]:
        """The FROM nodes whose pages do not stay."""
        if self.paired:
            pairs = zip(self.sources, self.destinations, strict=True)
            return tuple(source for source, target in pairs if source != target)
        return tuple(node for node in self.sources if node not in self.destinations)

    def targets(self, addresses: Addresses, home: Status, page_size: int) -> Status:
        """Node for each page that lies on node `home` (negative: not present), or STAY."""
        targets = np.full(len(addresses), STAY, np.int32)
        if self.paired:
            for source, target in zip(self.sources, self.destinations, strict=True):
                if source != target:
                    targets[home == source] = target
            return targets
        leaving = is_one_of(home, self.moving)
        piece = addresses[leaving] // np.uint64(max(self.grain, page_size))
        nodes = np.array(self.destinations, np.int32)
        targets[leaving] = nodes[piece % np.uint64(len(nodes))]
        return targets

    def target_of_all(self, home: Status, page_size: int) -> int | None:
        """Return where pages on nodes `home` go, or STAY; None if that is not one node for all."""
        if not len(home) or not (home == home[0]).all():
            return None
        if not self.paired and len(self.destinations) > 1:
            return None
        return int(self.targets(np.zeros(1, np.uint64), home[:1], page_size)[0])


@dataclass(frozen=True)
class Window:
    """Parts of one kind of the address space that are moved in one go, ascending."""

    kind: Kind
    page_size: int
    parts: tuple[tuple[int, int], ...]  # [start, end) in bytes
    home: int | None = None  # the node that all pages were on, if there was only one
    of_file: bool = False  # hugetlb pages of a file

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(end - start for start, end in self.parts)

    def addresses(self) -> Addresses:
        """Return the address of every page."""
        if len(self.parts) == 1:
            return np.arange(*self.parts[0], self.page_size, dtype=np.uint64)
        starts = np.array([start for start, _ in self.parts], np.uint64)
        sizes = [(end - start) // self.page_size for start, end in self.parts]
        counts = np.array(sizes, np.int64)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        offsets = (np.arange(counts.sum()) - before).astype(np.uint64)
        return np.repeat(starts, counts) + offsets * np.uint64(self.page_size)


def window_bytes(total: int, threads: int) -> int:
    """Size of a window when `total` bytes are shared by `threads`: several for each thread."""
    return max(_SMALLEST_WINDOW, min(_LARGEST_WINDOW, total // (4 * threads)))


# What the parts of a window have in common: kind, page size, home, and if they are of a file.
_Key = tuple[Kind, int, int | None, bool]


def windows(
    process: Process, mappings: Iterable[Mapping], limit: Callable[[], int], grain: int
) -> Iterator[Window]:
    """Cut the present pages of `mappings` into windows of about `limit()` bytes each.

    A window is cut at multiples of `grain` (the size of a transparent huge page), so that no
    folio lies in two windows, which two threads would then try to move at the same time.
    """
    cutters: dict[_Key, _Cutter] = {}
    for mapping in mappings:
        for regions in process.present(mapping):
            key = (regions.kind, regions.page_size, mapping.only_node, mapping.of_file)
            if key not in cutters:
                cutters[key] = _Cutter(key, limit, max(grain, regions.page_size))
            for start, end in zip(regions.starts.tolist(), regions.ends.tolist(), strict=True):
                yield from cutters[key].cut(start, end)
    for cutter in cutters.values():
        if cutter.parts:
            yield cutter.close()


class _Cutter:
    """Collects parts of one kind until they are a window."""

    def __init__(self, key: _Key, limit: Callable[[], int], step: int) -> None:
        self.parts: list[tuple[int, int]] = []
        self._key = key
        self._limit = limit
        self._step = step
        self._held = 0  # bytes of the parts
        self._most = limit()  # bytes of this window

    def cut(self, start: int, end: int) -> Iterator[Window]:
        """Add [start, end); yield the windows that are full."""
        while start < end:
            if self._full and (self.parts[-1][1] - 1) // self._step != start // self._step:
                yield self.close()
            room = max(self._most - self._held, 1)
            cut = min(end, -(-(start + room) // self._step) * self._step)
            self.parts.append((start, cut))
            self._held += cut - start
            start = cut

    @property
    def _full(self) -> bool:
        return self._held >= self._most or len(self.parts) >= _MOST_PARTS

    def close(self) -> Window:
        """Return the window, and begin another one."""
        kind, page_size, home, of_file = self._key
        window = Window(kind, page_size, tuple(self.parts), home, of_file)
        self.parts = []
        self._held = 0
        self._most = self._limit()
        return window
