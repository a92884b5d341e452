# SPDX-License-Identifier: GPL-2.0-only
"""Reading the address space of a process."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pagehaul.errors import PagehaulError
from pagehaul.move import addrspace
from pagehaul.move.addrspace import Kind, Process
from pagehaul.move.mappings import BASE_PAGE, Mapping, parse_maps, parse_numa_maps

MAPS = """\
1000-3000 r-xp 00000000 fe:00 5 /a file N0=77
5000-7000 rw-p 00000000 00:00 0 [heap]
7000-8000 ---p 00000000 00:00 0
40000000-40400000 rw-p 00000000 00:0f 9 /anon_hugepage (deleted)
"""
NUMA_MAPS = """\
00001000 default file=/a\\040file\\040N0=77 mapped=2 mapmax=9 N1=2 kernelpagesize_kB=4
00005000 prefer:1 heap anon=3 dirty=3 N0=1 N12=2 kernelpagesize_kB=4
00007000 default
40000000 default file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N0=2 kernelpagesize_kB=2048
50000000 default anon=1 N0=1 kernelpagesize_kB=4
"""


def test_numa_maps_are_joined_with_maps() -> None:
    assert list(parse_numa_maps(NUMA_MAPS.splitlines(), MAPS.splitlines())) == [
        Mapping(0x1000, 0x3000, 4096, {1: 8192}),
        Mapping(0x5000, 0x7000, 4096, {0: 4096, 12: 8192}),
        Mapping(0x40000000, 0x40400000, 2 << 20, {0: 4 << 20}),
    ]


@pytest.mark.parametrize(("perms", "of_file"), [("rw-p", False), ("rw-s", True)])
def test_hugetlb_pages_of_files_are_known(perms: str, of_file: bool) -> None:
    maps = [f"40000000-40400000 {perms} 00000000 00:0f 7 /anon_hugepage (deleted)"]
    numa_maps = ["40000000 default file=/anon_hugepage huge N0=2 kernelpagesize_kB=2048"]
    found = parse_numa_maps(numa_maps, maps)
    assert [each.of_file for each in found] == [of_file]


@pytest.mark.parametrize("name", ["[vdso]", "[uprobes]"])
def test_pages_of_the_kernel_are_known_by_name(name: str) -> None:
    maps = ["5000-7000 rw-p 00000000 00:00 0 [stack]\n", f"8000-9000 r-xp 0 00:00 0 {name}\n"]
    numa_maps = ["00005000 default stack=1 N0=1 kernelpagesize_kB=4", "00008000 default"]
    assert list(parse_numa_maps(numa_maps, maps)) == [
        Mapping(0x5000, 0x7000, 4096, {0: 4096}),
        Mapping(0x8000, 0x9000, 4096, {}),
    ]


def test_nobody_knows_where_pages_of_maps_are() -> None:
    maps = [
        "1000-3000 rw-p 00000000 00:00 0 ",
        "4000-5000 r-xp 00000000 00:00 0                          [vdso]",
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]",
    ]
    found = list(parse_maps(maps))
    assert [each.of_kernel for each in found] == [False, True, True]
    assert found[0] == Mapping(0x1000, 0x3000, BASE_PAGE, None)
    assert found[0].may_be_on((0,)) and not found[1].may_be_on((0, 1))
    assert found[0].only_node is None


def test_whether_pages_may_be_on_nodes() -> None:
    mapping = Mapping(0, 1, 4096, {0: 1, 2: 10, 3: 100})
    assert mapping.may_be_on((1, 3))
    assert not mapping.may_be_on((1,))


@pytest.fixture
def sparse() -> Iterator[tuple[mmap.mmap, set[int]]]:
    """8 MB of this process of which some pages are present, and the offsets of these pages."""
    memory = mmap.mmap(-1, 8 << 20)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    pages = {0, 1, 2, 17, 18, 100, 1023, 1024, 2047}
    for page in pages:
        memory[page * BASE_PAGE] = 1
    yield memory, pages
    memory.close()


def address_of(memory: mmap.mmap) -> int:
    return np.frombuffer(memory, np.uint8).ctypes.data


@pytest.mark.parametrize("can_scan", [True, False])
def test_present_pages_are_found(
    sparse: tuple[mmap.mmap, set[int]], can_scan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addrspace, "_SMALL_HOLE", BASE_PAGE)
    memory, pages = sparse
    start = address_of(memory)
    with Process(os.getpid()) as process:
        process._can_scan = can_scan
        found: set[int] = set()
        for regions in process.present(Mapping(start, start + len(memory), BASE_PAGE, {})):
            assert regions.kind is Kind.BASE
            for first, last in zip(regions.starts.tolist(), regions.ends.tolist(), strict=True):
                assert start <= first < last <= start + len(memory)
                found.update(range((first - start) // BASE_PAGE, (last - start) // BASE_PAGE))
    assert found == pages


@pytest.mark.parametrize("can_scan", [True, False])
def test_small_holes_are_joined(
    sparse: tuple[mmap.mmap, set[int]], can_scan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By one search, as those further on.
    monkeypatch.setattr(addrspace, "_FIRST_SCAN_BYTES", addrspace._SCAN_BYTES)
    memory, _ = sparse
    start = address_of(memory)
    with Process(os.getpid()) as process:
        process._can_scan = can_scan
        parts = [
            ((first - start) // BASE_PAGE, (last - start) // BASE_PAGE)
            for regions in process.present(Mapping(start, start + len(memory), BASE_PAGE, {}))
            for first, last in zip(regions.starts.tolist(), regions.ends.tolist(), strict=True)
        ]
    assert parts == [(0, 19), (100, 101), (1023, 1025), (2047, 2048)]


def test_pages_in_many_pieces_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than 512 pieces the kernel tells too low an end of the search."""
    monkeypatch.setattr(addrspace, "_FIRST_SCAN_BYTES", addrspace._SCAN_BYTES)
    pieces, apart = 1500, 17
    with mmap.mmap(-1, pieces * apart * BASE_PAGE) as memory, Process(os.getpid()) as process:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for piece in range(pieces):
            memory[piece * apart * BASE_PAGE] = 1
        start = address_of(memory)
        found = [
            (first - start) // BASE_PAGE
            for regions in process.present(Mapping(start, start + len(memory), BASE_PAGE, {}))
            for first in regions.starts.tolist()
        ]
    assert found == [piece * apart for piece in range(pieces)]


def test_huge_regions_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addrspace, "thp_size", lambda: 2 << 20)
    huge = addrspace._PAGE_IS_HUGE
    found = np.array(
        [
            [0x1FF000, 0x200000, 0],
            [0x200000, 0x600000, huge],
            [0x600000, 0x601000, 0],
            [0x801000, 0xA00000, huge],  # not whole huge pages
        ],
        np.uint64,
    )
    base, thp = addrspace._split_by_kind(found)
    assert (base.kind, thp.kind) == (Kind.BASE, Kind.THP)
    assert base.starts.tolist() == [0x1FF000, 0x600000, 0x801000]
    assert base.ends.tolist() == [0x200000, 0x601000, 0xA00000]
    assert (thp.starts.tolist(), thp.ends.tolist()) == ([0x200000], [0x600000])


def test_own_process() -> None:
    with Process(os.getpid()) as process:
        assert process.alive()
        assert process.name()
        assert process.allowed_nodes()


def test_no_such_process() -> None:
    with pytest.raises(PagehaulError, match="there is no process 4194305"):
        Process(4194305)


@pytest.mark.parametrize("look", [False, True])
def test_process_that_ends(look: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Process(child.pid) as process:
        assert process.alive()
        child.kill()
        child.wait()
        assert not process.alive()
        with pytest.raises(PagehaulError, match=f"no process {child.pid}: it has ended"):
            process.mappings(look)
        mapping = Mapping(0x1000, 0x2000, BASE_PAGE, {})
        assert list(process.present(mapping)) == []


@pytest.mark.parametrize("look", [False, True])
def test_zombie_and_kernel_thread(look: bool, tmp_path: Path) -> None:
    for pid, state, why in ((7, "S", "no memory of its own"), (8, "Z", "has ended")):
        directory = tmp_path / str(pid)
        directory.mkdir()
        (directory / "numa_maps").write_text("")
        (directory / "maps").write_text("")
        (directory / "status").write_text("Name:\ta\n")
        (directory / "stat").write_text(f"{pid} (a) b) {state} 1 1\n")
        with Process(pid, tmp_path) as process, pytest.raises(PagehaulError, match=why):
            process.mappings(look)
        with Process(pid, tmp_path) as process, pytest.raises(PagehaulError, match=why):
            process.resident()


@pytest.mark.parametrize("look", [False, True])
def test_no_permission(look: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "9").mkdir()
    with Process(9, tmp_path) as process:

        def refuse(name: str) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(process, "_open", refuse)
        with pytest.raises(PagehaulError, match="no permission to look into process 9"):
            process.mappings(look)
