# SPDX-License-Identifier: GPL-2.0-only
"""The `move` verb: what it refuses, what it reports, what it returns."""

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pagehaul.cli import move
from pagehaul.errors import PagehaulError
from pagehaul.move import planning, work
from pagehaul.move.addrspace import Kind, Process
from pagehaul.move.mappings import BASE_PAGE, Mapping
from pagehaul.move.movepages import MovePages
from pagehaul.move.outcome import Outcome
from pagehaul.move.relocate import Relocator
from pagehaul.move.windows import Window

MB = 1 << 20


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    move.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nodes 0 and 1, whatever this one has."""
    monkeypatch.setattr(planning, "memory_nodes", lambda: (0, 1))
    nodes = {"0": (0,), "1": (1,), "0,1": (0, 1), "all": (0, 1)}
    monkeypatch.setattr(planning, "parse_nodes", lambda text, what: nodes[text])
    monkeypatch.setattr(Process, "allowed_nodes", lambda self: (0, 1))


@pytest.fixture
def victim() -> Iterator[int]:
    """Another process of the same user."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child.pid
    child.kill()
    child.wait()


def refuse(number: int) -> Callable[[MovePages], None]:
    def probe(self: MovePages) -> None:
        raise OSError(number, os.strerror(number))

    return probe


def error_of(*words: str) -> str:
    with pytest.raises(PagehaulError) as caught:
        move.run(parse(*words))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_one_node_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "memory_nodes", lambda: (0,))
    assert "one NUMA node" in error_of(str(os.getpid()), "0", "1")


@pytest.mark.usefixtures("two_nodes")
def test_no_such_process() -> None:
    assert error_of("4194305", "0", "1") == "there is no process 4194305"
    assert "not the number of a process" in error_of("0", "0", "1")


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize(("source", "target"), [("0", "0"), ("0", "0,1"), ("all", "all")])
def test_nothing_to_do(source: str, target: str) -> None:
    assert "nothing to do" in error_of(str(os.getpid()), source, target)


@pytest.mark.usefixtures("two_nodes")
def test_threads_must_be_positive() -> None:
    assert "--threads" in error_of(str(os.getpid()), "0", "1", "--threads", "0")


@pytest.mark.usefixtures("two_nodes")
def test_cpuset_without_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "allowed_nodes", lambda self: (0,))
    assert "does not permit node 1: it permits 0" in error_of(str(os.getpid()), "0", "1")


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize(
    ("number", "line"),
    [
        (errno.EPERM, "no permission to move pages"),
        (errno.ENOSYS, "no move_pages"),
        (errno.ESRCH, "ended while its pages were moved"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_refusals_of_the_kernel(
    victim: int, number: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MovePages, "probe", refuse(number))
    assert line in error_of(str(victim), "0", "1")


@pytest.mark.usefixtures("two_nodes")
def test_all_without_the_capability(victim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(self: MovePages) -> None:
        if self._flags & 4:
            raise PermissionError(errno.EPERM, "")

    monkeypatch.setattr(MovePages, "probe", probe)
    assert "--all needs CAP_SYS_NICE" in error_of(str(victim), "0", "1", "--all")


@pytest.mark.usefixtures("two_nodes")
def test_dry_run_counts_and_moves_nothing(
    victim: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{i}000 default heap N0=5 N1=7 kernelpagesize_kB={BASE_PAGE >> 10}" for i in "12"]
    monkeypatch.setattr(Process, "numa_maps", lambda self: iter(lines))
    monkeypatch.setattr(MovePages, "_call", lambda *args: pytest.fail("called the kernel"))
    assert move.run(parse(str(victim), "0", "1", "--dry-run")) == 0
    assert f"(10 pages of {BASE_PAGE >> 10} KB) on node 0" in capsys.readouterr().out
    assert move.run(parse(str(victim), "0", "1", "--dry-run", "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["found_bytes"] == 10 * BASE_PAGE
    assert result["found_bytes_by_node"] == {"0": 10 * BASE_PAGE}


def outcome_is(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome | BaseException | signal.Signals
) -> None:
    """Let the victim have 1 MB on node 0, of which `outcome` becomes."""

    def move_window(relocator: Relocator, window: Window) -> Outcome:
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, signal.Signals):
            # While a window is moved, which then ends.
            os.kill(os.getpid(), outcome)
            return Outcome(moved=MB // 2)
        return outcome

    mappings = [Mapping(0x10000000, 0x10000000 + MB, BASE_PAGE, {0: MB})]
    window = Window(Kind.BASE, BASE_PAGE, ((0x10000000, 0x10000000 + MB),))
    monkeypatch.setattr(MovePages, "probe", lambda self: None)
    # Half of it is what is still there after a signal.
    line = f"10000000 default heap N0={MB // 2 // BASE_PAGE} kernelpagesize_kB={BASE_PAGE >> 10}"
    monkeypatch.setattr(Process, "numa_maps", lambda self: iter([line]))
    monkeypatch.setattr(Process, "mappings", lambda *_, **__: iter(mappings))
    monkeypatch.setattr(work, "windows", lambda *args: iter([window]))
    monkeypatch.setattr(Relocator, "move_window", move_window)


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize(
    ("outcome", "options", "status"),
    [
        (Outcome(moved=MB), (), 0),
        (Outcome(moved=MB - 4096, left=Counter({errno.EBUSY: 4096})), (), 3),
        (Outcome(moved=MB - 4096, left=Counter({errno.ENOMEM: 4096})), (), 3),
        (Outcome(moved=MB - 4096, left=Counter({errno.EACCES: 4096})), (), 0),
        (Outcome(moved=MB - 4096, left=Counter({errno.EACCES: 4096})), ("--all",), 3),
        (Outcome(moved=MB - 4096, gone=4096), (), 0),
        (signal.SIGINT, (), 130),
        (signal.SIGTERM, (), 143),
    ],
)
def test_exit_status(
    victim: int,
    outcome: Outcome | signal.Signals,
    options: tuple[str, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome_is(monkeypatch, outcome)
    assert move.run(parse(str(victim), "0", "1", *options)) == status
    assert capsys.readouterr().out.startswith("moved ")
    assert move.run(parse(str(victim), "0", "1", *options, "--json")) == status
    result = json.loads(capsys.readouterr().out)
    assert result["complete"] == (status == 0)
    assert result["status"] == status
    if isinstance(outcome, signal.Signals):
        assert (result["moved_bytes"], result["untried_bytes"]) == (MB // 2, MB // 2)
        assert result["error"] in ("interrupted", "terminated")
    else:
        assert result["moved_bytes"] == outcome.moved
        assert sum(each["bytes"] for each in result["left"]) == outcome.left.total()


@pytest.mark.usefixtures("two_nodes")
def test_process_that_ends_in_the_middle_is_reported_with_what_was_moved(
    victim: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome_is(monkeypatch, ProcessLookupError(errno.ESRCH, ""))
    assert "ended while its pages were moved" in error_of(str(victim), "0", "1", "--json")
    result = json.loads(capsys.readouterr().out)
    assert not result["complete"]
    assert "ended" in result["error"]
    assert result["status"] == 4


@pytest.mark.usefixtures("two_nodes")
def test_text_names_what_stayed(
    victim: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Counter({errno.EBUSY: 8192, errno.EACCES: 4096})
    outcome_is(monkeypatch, Outcome(moved=MB - 16384, gone=4096, left=left))
    move.run(parse(str(victim), "0", "1", "--threads", "3"))
    lines = capsys.readouterr().out.splitlines()
    assert "GB/s (3 callers)" in lines[0]
    assert lines[1].startswith("  stayed: 8.19 kB (2 pages of 4 KB): pinned")
    assert lines[2].startswith("  stayed: 4.10 kB (1 page of 4 KB): shared")
    assert lines[3].startswith("  freed, swapped out or moved by others: 4.10 kB")


def test_callers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert planning.default_threads(False) == 8
    assert planning.default_threads(True) == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4})
    assert planning.default_threads(False) == 2
    assert planning.default_threads(True, 16) == 4
    assert planning.default_threads(False, 16) == 8


def test_flag_of_pagehauls_kernel() -> None:
    """This kernel does not know it: that is an error, and leaves the flags alone."""
    mover = MovePages(os.getpid())
    if planning.kernel_shares():
        pytest.skip("this is Pagehaul's kernel")
    with pytest.raises(OSError, match="Invalid"):
        mover.share()
    mover.probe()


@pytest.mark.parametrize(
    ("enabled", "helpers", "shares"),
    [("1", "4", True), ("0", "4", False), ("1", "0", False), ("?", "x", False)],
)
def test_interface_of_the_kernel(tmp_path: Path, enabled: str, helpers: str, shares: bool) -> None:
    assert not planning.kernel_shares(tmp_path)
    (tmp_path / "enabled").write_text(enabled + "\n")
    (tmp_path / "max_helpers").write_text(helpers + "\n")
    assert planning.kernel_shares(tmp_path) is shares


@pytest.mark.parametrize(
    ("capabilities", "setting", "reasons", "helps"),
    [
        ("0000000000800000", "0", "", True),
        ("0000000000400000", "0", "syscall_or_cpuset", False),
        ("0000000000000000", "1", "", True),
        ("0000000000000000", "2", "demotion syscall_or_cpuset", True),
        ("0000000000000000", "2", "demotion compaction", False),
        ("0000000000000000", "?", "syscall_or_cpuset", False),
    ],
)
def test_the_kernel_helps_as_it_is_set(
    tmp_path: Path, capabilities: str, setting: str, reasons: str, helps: bool
) -> None:
    for name, text in (
        ("enabled", "1"),
        ("max_helpers", "4"),
        ("reasons", reasons),
        ("mt_page_copy", setting),
        ("status", f"Name:\tmove\nCapEff:\t{capabilities}"),
    ):
        (tmp_path / name).write_text(text + "\n")
    files = (tmp_path, tmp_path / "mt_page_copy", tmp_path / "status")
    assert planning.kernel_helps(False, *files) is helps
    # One CPU alone moves what others map, too.
    assert not planning.kernel_helps(True, *files)
    (tmp_path / "enabled").write_text("0\n")
    assert not planning.kernel_helps(False, *files)


def test_query_of_the_real_kernel() -> None:
    """Pages of this process have a node; an address without a mapping has an errno."""
    memory = bytearray(64 * BASE_PAGE)
    address = (np.frombuffer(memory, np.uint8).ctypes.data // BASE_PAGE + 1) * BASE_PAGE
    mover = MovePages(os.getpid())
    try:
        mover.probe()
    except OSError as exc:
        if exc.errno != errno.ENOSYS:
            raise
        pytest.skip("this kernel has no move_pages(2)")
    status = mover.query(np.array([address, BASE_PAGE], np.uint64))
    assert status[0] >= 0
    assert status[1] in (-errno.EFAULT, -errno.ENOENT)
    node = int(status[0])
    result, status = mover.move(np.array([address, BASE_PAGE], np.uint64), node)
    assert result == 0
    assert status[0] == node
    with pytest.raises(OSError, match="No such process"):
        MovePages(4194305).probe()
