# SPDX-License-Identifier: GPL-2.0-only
"""However large a process is, `move` needs little memory of its own, and little time."""

import ctypes
import time
import tracemalloc
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pagehaul.move.addrspace import Process
from pagehaul.move.frames import Frames
from pagehaul.move.mappings import BASE_PAGE, Mapping, spans
from pagehaul.move.movepages import Addresses, MovePages, Status
from pagehaul.move.pace import Pace
from pagehaul.move.progress import Progress
from pagehaul.move.report import Part, Request
from pagehaul.move.selection import Selection
from pagehaul.move.stop import SignalStop
from pagehaul.move.windows import Plan
from pagehaul.move.work import Work

MB = 1 << 20
TB = 1 << 40
THP = 2 * MB
HUGE = 1 << 6  # PAGE_IS_HUGE
START = 0x100000000000
PID = 4194305  # larger than any real one
PROC_STAT = f"{PID} (large) S 1 " + " ".join(["0"] * 17) + " 77\n"

# Bytes that the tool may take for a process of any size, with two callers.
BOUND = 8 * MB


class Kernel:
    """A process whose pages repeat: the first `present` bytes of each `step` bytes, on node 0."""

    def __init__(self, step: int, present: int, flags: int = 0) -> None:
        self.step, self.present, self.flags = step, present, flags
        self.scans = 0
        # One byte for each `present` bytes, so that the model itself stays small.
        self.on_node_1 = np.zeros(0, np.bool_)

    def scan(self, file: int, request: int, arg: "array[int]", mutate: bool) -> int:
        """PAGEMAP_SCAN."""
        self.scans += 1
        start, end, vector, length = arg[2], arg[3], arg[5], arg[6]
        first = start + (START - start) % self.step
        last = min(end, first + length * self.step)
        starts = np.arange(first, last, self.step, dtype=np.uint64)
        found = np.zeros((len(starts), 3), np.uint64)
        found[:, 0] = starts
        found[:, 1] = starts + np.uint64(self.present)
        found[:, 2] = self.flags
        ctypes.memmove(vector, found.ctypes.data, found.nbytes)
        arg[4] = last
        return len(starts)

    def _index(self, addresses: Addresses) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return ((addresses - np.uint64(START)) // np.uint64(self.step)).astype(np.int64)

    def query(self, addresses: Addresses) -> Status:
        return self.on_node_1[self._index(addresses)].astype(np.int32)

    def move(self, addresses: Addresses, node: int) -> tuple[int, Status]:
        self.on_node_1[self._index(addresses)] = True
        return 0, np.full(len(addresses), node, np.int32)


def process(tmp_path: Path, mappings: Iterable[tuple[int, int, int]]) -> None:
    """Write what /proc says of a process with mappings of (start, end, base pages on node 0)."""
    directory = tmp_path / str(PID)
    directory.mkdir()
    with (directory / "numa_maps").open("w") as numa, (directory / "maps").open("w") as maps:
        for start, end, pages in mappings:
            name = f"/usr/lib/x86_64-linux-gnu/some/where/lib{start:x}.so"
            numa.write(
                f"{start:x} default file={name} anon=2 dirty=2 active=0 N0={pages} "
                "kernelpagesize_kB=4\n"
            )
            maps.write(f"{start:x}-{end:x} r-xp 00000000 fe:00 5        {name}\n")
    for name, text in (
        ("stat", PROC_STAT),
        ("comm", "large\n"),
        ("status", "VmRSS:\t0 kB\n"),
        ("pagemap", ""),
    ):
        (directory / name).write_text(text)


def move(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Part:
    """Move all of the process to node 1."""
    monkeypatch.setattr("fcntl.ioctl", kernel.scan)
    monkeypatch.setattr(Frames, "find", lambda: None)
    monkeypatch.setattr(MovePages, "probe", lambda self: None)
    monkeypatch.setattr(MovePages, "query", lambda self, addresses: kernel.query(addresses))
    monkeypatch.setattr(MovePages, "move", lambda self, *args: kernel.move(*args))
    monkeypatch.setattr(Process, "hold", lambda self: self.exists)
    request = Request(Plan((0,), (1,), THP), move_all=False, threads=2, kernel_shares=False)
    work = Work(request, Selection([PID], proc=tmp_path), Pace(THP), Progress())
    with SignalStop() as stop:
        work.run(stop)
    assert work.report.status == 0
    (part,) = work.report.parts.values()
    return part


@contextmanager
def memory_is_bounded() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BOUND


MANY = 65000


def many(gap: int) -> Iterator[tuple[int, int, int]]:
    for number in range(MANY):
        start = START + number * (2 * BASE_PAGE + gap)
        yield start, start + 2 * BASE_PAGE, 2


@pytest.mark.parametrize("gap", [0, 4 * MB])
def test_many_mappings_take_little_time(
    gap: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, many(gap))
    kernel = Kernel(2 * BASE_PAGE + gap, 2 * BASE_PAGE)
    kernel.on_node_1 = np.zeros(MANY, np.bool_)
    began = time.process_time()
    part = move(tmp_path, kernel, monkeypatch)
    seconds = time.process_time() - began
    assert part.outcome.moved == part.found == MANY * 2 * BASE_PAGE
    assert kernel.on_node_1.all()
    assert kernel.scans < 30, "small mappings are searched together"
    assert seconds < 2


def test_many_mappings_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(tmp_path, many(4 * MB))
    kernel = Kernel(2 * BASE_PAGE + 4 * MB, 2 * BASE_PAGE)
    kernel.on_node_1 = np.zeros(MANY, np.bool_)
    with memory_is_bounded():
        part = move(tmp_path, kernel, monkeypatch)
    assert part.outcome.moved == MANY * 2 * BASE_PAGE


@pytest.mark.parametrize(
    ("step", "present", "flags"),
    [(16 * MB, BASE_PAGE, 0), (4 * MB, BASE_PAGE, 0), (32 * THP, THP, HUGE)],
    ids=["sparse", "less sparse", "huge"],
)
def test_a_terabyte_takes_little_memory(
    step: int,
    present: int,
    flags: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = TB
    pieces = size // step
    mappings = 16
    each = size // mappings
    process(
        tmp_path,
        (
            (START + at, START + at + each, pieces // mappings * (present // BASE_PAGE))
            for at in range(0, size, each)
        ),
    )
    kernel = Kernel(step, present, flags)
    kernel.on_node_1 = np.zeros(pieces, np.bool_)
    with memory_is_bounded():
        part = move(tmp_path, kernel, monkeypatch)
    assert part.outcome.moved == part.found == pieces * present


def test_a_search_holds_the_lock_for_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 64 MB that are there; more and more addresses where little is there."""
    process(tmp_path, [(START, START + TB, 2)])
    kernel = Kernel(TB // 2, BASE_PAGE)
    asked = []

    def scan(file: int, request: int, arg: "array[int]", mutate: bool) -> int:
        asked.append((arg[3] - arg[2], arg[7]))
        return kernel.scan(file, request, arg, mutate)

    monkeypatch.setattr("fcntl.ioctl", scan)
    with Process(PID, tmp_path) as held:
        found = list(held.present(Mapping(START, START + TB, BASE_PAGE, {0: BASE_PAGE})))
    assert sum(len(each.starts) for each in found) == 2
    # The first search is of nothing, to see whether the kernel has it.
    assert asked[0][0] == 0 and asked[1][0] <= 64 * MB
    assert {most for _, most in asked} == {64 * MB // BASE_PAGE}
    assert len(asked) < 40


def test_a_gap_takes_few_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a program and its libraries is nearly all of the address space."""
    kernel = Kernel(1 << 60, BASE_PAGE)
    process(tmp_path, [(START, START + 2 * BASE_PAGE, 1)])
    monkeypatch.setattr("fcntl.ioctl", kernel.scan)
    with Process(PID, tmp_path) as held:
        list(held.present(Mapping(START, START + (1 << 47), BASE_PAGE, None)))
    assert kernel.scans < 16


def test_a_search_for_huge_pages_finds_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, [(START, START + 16 * 1024 * MB, 2)])
    kernel = Kernel(THP, THP, HUGE)
    asked = []

    def scan(file: int, request: int, arg: "array[int]", mutate: bool) -> int:
        asked.append(arg[7] * BASE_PAGE)
        return kernel.scan(file, request, arg, mutate)

    monkeypatch.setattr("fcntl.ioctl", scan)
    with Process(PID, tmp_path) as held:
        found = list(held.present(Mapping(START, START + 16 * 1024 * MB, BASE_PAGE, None)))
    assert sum(len(each.starts) for each in found) == 8192
    assert asked[1] == 64 * MB and set(asked[2:]) == {512 * MB}
    assert len(asked) < 60


def mappings(*words: tuple[int, int, dict[int, int]]) -> list[Mapping]:
    return [Mapping(start * MB, end * MB, BASE_PAGE, nodes) for start, end, nodes in words]


def test_what_is_searched_together() -> None:
    near = mappings((0, 1, {0: 5}), (2, 3, {0: 7, 1: 1}), (9, 10, {0: 1}))
    assert list(spans(near, (0,), wide=False)) == mappings((0, 3, {0: 12, 1: 1}), (9, 10, {0: 1}))
    assert list(spans(near, (0,), wide=True)) == mappings((0, 10, {0: 13, 1: 1}))
    assert list(spans(near, (1,), wide=True)) == mappings((2, 3, {0: 7, 1: 1}))
    assert near[0].node_bytes == {0: 5}
    # Where nobody has looked, pages may be anywhere.
    mixed = [near[0], Mapping(2 * MB, 3 * MB, BASE_PAGE, None), near[2]]
    assert list(spans(mixed, (0,), wide=True)) == [Mapping(0, 10 * MB, BASE_PAGE, None)]
    # Pages elsewhere are not searched, but for a few.
    other = mappings((0, 1, {0: 1}), (1, 500, {1: 9}), (500, 501, {0: 1}))
    assert list(spans(other, (0,), wide=True)) == [other[0], other[2]]
    huge = Mapping(MB, 3 * MB, THP, {0: THP})
    parts = [*mappings((0, 1, {0: 1})), huge, *mappings((3, 4, {0: 1}))]
    assert list(spans(parts, (0,), wide=True)) == parts
    # Pages of the kernel lie between.
    parts = mappings((0, 1, {0: 1}), (1, 2, {}), (2, 3, {0: 1}))
    for wide in (False, True):
        assert list(spans(parts, (0,), wide)) == [parts[0], parts[2]]
