# SPDX-License-Identifier: GPL-2.0-only
"""Nodes by the numbers of frames."""

import errno
import mmap
import os
import platform
from pathlib import Path

import numpy as np
import pytest

from pagehaul.move import frames
from pagehaul.move.addrspace import Kind, Process
from pagehaul.move.frames import Frames, read_entries
from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.movepages import UNWRITTEN, MovePages
from pagehaul.move.relocate import Relocator
from pagehaul.move.windows import Plan, Window
from pagehaul.move.work import _locate

PRESENT = 1 << 63
PER_BLOCK = 32768


def machine(root: Path, blocks: dict[int, list[int]]) -> tuple[Path, Path]:
    """Nodes with blocks of 128 MB, and the file that tells their size."""
    for node, numbers in blocks.items():
        for number in numbers:
            (root / f"node{node}/memory{number}").mkdir(parents=True)
        (root / f"node{node}/memory_failure").mkdir(parents=True)
    size = root / "block_size_bytes"
    size.write_text(f"{PER_BLOCK * BASE_PAGE:x}\n")
    return root, size


def find(root: Path, blocks: dict[int, list[int]], monkeypatch: pytest.MonkeyPatch) -> Frames:
    monkeypatch.setattr(frames, "_zero_frame", lambda: 77)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    found = Frames.find(*machine(root, blocks))
    assert found is not None
    return found


def test_nodes_of_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(tmp_path, {0: [0, 1, 3], 1: [3, 5]}, monkeypatch)
    numbers = [5, 2 * PER_BLOCK - 1, 2 * PER_BLOCK, 3 * PER_BLOCK, 5 * PER_BLOCK + 9, 9 << 30, 77]
    entries = np.array([PRESENT | 1 << 55 | number for number in numbers] + [6], np.uint64)
    assert found.nodes(entries).tolist() == [
        0,
        0,
        UNWRITTEN,  # a hole
        UNWRITTEN,  # on both nodes
        1,
        UNWRITTEN,  # memory that came later
        -errno.ENOENT,  # the zero page
        -errno.ENOENT,  # absent
    ]


def test_none_where_the_kernel_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(frames, "_zero_frame", lambda: 77)
    assert Frames.find(tmp_path, tmp_path / "none") is None
    nodes, size = machine(tmp_path / "one", {0: [0]})
    assert Frames.find(nodes, size) is not None
    monkeypatch.setattr(frames, "_zero_frame", lambda: 0)  # without CAP_SYS_ADMIN
    assert Frames.find(nodes, size) is None
    monkeypatch.setattr(frames, "_zero_frame", lambda: 77)
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    assert Frames.find(nodes, size) is None
    nodes, size = machine(tmp_path / "two", {0: []})
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert Frames.find(nodes, size) is None


def test_entries_end_where_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "pagemap"
    path.write_bytes(np.arange(10, dtype=np.uint64).tobytes())
    file = os.open(path, os.O_RDONLY)
    try:
        assert read_entries(file, 8 * BASE_PAGE, 12 * BASE_PAGE).tolist() == [8, 9, 0, 0]
        assert len(read_entries(file, 0, 0)) == 0
    finally:
        os.close(file)


@pytest.fixture
def memory() -> mmap.mmap:
    """Memory of this process: each third page was written to, each third only read."""
    memory = mmap.mmap(-1, 99 * BASE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(99):
        if page % 3 == 0:
            memory[page * BASE_PAGE] = 1
        elif page % 3 == 1:
            assert memory[page * BASE_PAGE] == 0
    return memory


def test_it_finds_what_the_kernel_tells(memory: mmap.mmap) -> None:
    found = Frames.find()
    if found is None:
        pytest.skip("frames are not shown here")
    start = np.frombuffer(memory, np.uint8).ctypes.data
    part = (start, start + len(memory))
    window = Window(Kind.BASE, BASE_PAGE, (part,))
    with Process(os.getpid()) as process:
        process.can_scan()
        nodes = _locate(process, found, window)
    try:
        told = MovePages(os.getpid()).query(window.addresses())
    except OSError:
        told = np.where(np.arange(99) % 3 == 0, 0, -errno.ENOENT).astype(np.int32)
    assert nodes is not None
    # The kernel gives a zero page another errno.
    assert np.maximum(nodes, -1).tolist() == np.maximum(told, -1).tolist()
    assert (nodes >= 0).sum() == 33


def test_unknown_pages_are_asked_for() -> None:
    class Mover:
        def query(self, addresses: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> object:
            assert addresses.tolist() == [BASE_PAGE]
            return np.array([1], np.int32)

    window = Window(Kind.BASE, BASE_PAGE, ((0, 2 * BASE_PAGE),))
    relocator = Relocator(
        Mover(),  # type: ignore[arg-type]
        Plan((0,), (1,), 2 << 20),
        locate=lambda window: np.array([0, UNWRITTEN], np.int32),
    )
    assert relocator._home(window, window.addresses()).tolist() == [0, 1]
