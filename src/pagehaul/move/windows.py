# SPDX-License-Identifier: GPL-2.0-only
"""Which page goes to which node, and the parts of an address space that are moved in one go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pagehaul.move.addrspace import Kind, Mapping, Process
from pagehaul.move.movepages import Addresses, Status

# Target of a page that stays where it is.
STAY = -1

# Bytes of one window: large enough that what a call costs by itself (it drains the per-CPU page
# lists of the whole machine) is small beside the moving, small enough for a live progress bar.
_SMALLEST_WINDOW = 8 << 20
_LARGEST_WINDOW = 128 << 20


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
        leaving = np.isin(home, self.moving)
        piece = addresses[leaving] // np.uint64(max(self.grain, page_size))
        nodes = np.array(self.destinations, np.int32)
        targets[leaving] = nodes[piece % np.uint64(len(nodes))]
        return targets


@dataclass(frozen=True)
class Window:
    """Parts of one kind of the address space that are moved in one go, ascending."""

    kind: Kind
    page_size: int
    parts: tuple[tuple[int, int], ...]  # [start, end) in bytes

    def addresses(self) -> Addresses:
        """Return the address of every page."""
        starts = np.array([start for start, _ in self.parts], np.uint64)
        sizes = [(end - start) // self.page_size for start, end in self.parts]
        counts = np.array(sizes, np.int64)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        offsets = (np.arange(counts.sum()) - before).astype(np.uint64)
        return np.repeat(starts, counts) + offsets * np.uint64(self.page_size)


def window_bytes(total: int, threads: int) -> int:
    """Size of a window when `total` bytes are shared by `threads`: several for each thread."""
    return max(_SMALLEST_WINDOW, min(_LARGEST_WINDOW, total // (4 * threads)))


def windows(
    process: Process, mappings: Iterable[Mapping], limit: int, grain: int
) -> Iterator[Window]:
    """Cut the present pages of `mappings` into windows of about `limit` bytes.

    A window is cut at multiples of `grain` (the size of a transparent huge page), so that no
    folio lies in two windows, which two threads would then try to move at the same time.
    """
    open_parts: dict[tuple[Kind, int], list[tuple[int, int]]] = {}
    for mapping in mappings:
        for regions in process.present(mapping):
            key = (regions.kind, regions.page_size)
            step = max(grain, regions.page_size)
            parts = open_parts.setdefault(key, [])
            held = sum(end - start for start, end in parts)
            bounds = zip(regions.starts.tolist(), regions.ends.tolist(), strict=True)
            for start, end in bounds:
                while start < end:
                    room = max(limit - held, 1)
                    cut = min(end, -(-(start + room) // step) * step)
                    parts.append((start, cut))
                    held += cut - start
                    start = cut
                    if held >= limit:
                        yield Window(*key, tuple(parts))
                        parts.clear()
                        held = 0
    for key, parts in open_parts.items():
        if parts:
            yield Window(*key, tuple(parts))
