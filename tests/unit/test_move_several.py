# SPDX-License-Identifier: GPL-2.0-only
"""The `move` verb on several processes, trees and cgroups, once or again and again."""

import argparse
import errno
import functools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pagehaul.cli import main, move
from pagehaul.errors import NoProcessError, PagehaulError, UsageError
from pagehaul.move import planning, tiers, work
from pagehaul.move.addrspace import Kind, Process
from pagehaul.move.mappings import BASE_PAGE, Mapping
from pagehaul.move.movepages import MovePages
from pagehaul.move.outcome import Outcome
from pagehaul.move.pace import Pace
from pagehaul.move.relocate import Relocator
from pagehaul.move.selection import Selection
from pagehaul.move.windows import Window

MB = 1 << 20
ONE, TWO, THREE = 4194311, 4194312, 4194313  # larger than any real one


class World:
    """Processes with memory on node 0, and what becomes of it when it is moved."""

    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc = proc
        self.on_node_0: dict[int, int] = {}
        self.moved: list[int] = []  # who, in order
        self.becomes: dict[int, Callable[[], Outcome]] = {}
        self.paces: list[Pace] = []
        monkeypatch.setattr(planning, "memory_nodes", lambda: (0, 1))
        monkeypatch.setattr(planning, "parse_nodes", lambda text, what: (int(text),))
        monkeypatch.setattr(move, "Selection", functools.partial(Selection, proc=proc))
        monkeypatch.setattr(Process, "can_scan", lambda process: True)
        monkeypatch.setattr(Process, "mappings", lambda *_, **__: iter(()))
        monkeypatch.setattr(Process, "numa_maps", lambda process: self._numa_maps(process))
        monkeypatch.setattr(MovePages, "_call", lambda *args: 0)
        monkeypatch.setattr(work, "windows", self._windows)
        monkeypatch.setattr(Relocator, "move_window", lambda *args: self._move_window(*args))

    def start(self, pid: int, size: int = MB, parent: int = 1, born: int = 5) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        text = f"{pid} (name) S {parent} " + " ".join(["0"] * 17) + f" {born}\n"
        for name, content in (
            ("stat", text),
            ("comm", f"name{pid % 10}\n"),
            ("status", "VmRSS:\t0 kB\n"),
        ):
            (self.proc / str(pid) / name).write_text(content)
        self.on_node_0[pid] = size

    def end(self, pid: int) -> None:
        for path in (self.proc / str(pid)).iterdir():
            path.unlink()
        (self.proc / str(pid)).rmdir()

    def _numa_maps(self, process: Process) -> list[str]:
        pages = self.on_node_0[process.pid] // BASE_PAGE
        return [f"1000 default heap N0={pages} kernelpagesize_kB={BASE_PAGE >> 10}"]

    def _windows(self, process: Process, *args: object) -> Iterator[Window]:
        size = self.on_node_0[process.pid]
        if size:
            yield Window(Kind.BASE, BASE_PAGE, ((0, size),))

    def _move_window(self, relocator: Relocator, window: Window) -> Outcome:
        pid = relocator._mover._pid.value  # type: ignore[attr-defined]
        self.moved.append(pid)
        if pid in self.becomes:
            return self.becomes[pid]()
        size, self.on_node_0[pid] = self.on_node_0[pid], 0
        return Outcome(moved=size)


def moves(*words: str) -> int:
    parser = argparse.ArgumentParser()
    move.add_arguments(parser)
    return move.run(parser.parse_args(words))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    proc = tmp_path / "proc"
    proc.mkdir()
    return World(proc, monkeypatch)


def busy() -> Outcome:
    return Outcome(left=Counter({errno.EBUSY: MB}))


def fail(number: int) -> Callable[[], Outcome]:
    def raising() -> Outcome:
        raise OSError(number, os.strerror(number))

    return raising


def test_several_processes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.start(ONE, MB)
    world.start(TWO, 2 * MB)
    assert moves(str(ONE), str(TWO), "0", "1", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert world.moved == [ONE, TWO]
    assert (result["found_bytes"], result["moved_bytes"]) == (3 * MB, 3 * MB)
    assert (result["status"], result["complete"], result["error"]) == (0, True, None)
    names = [(each["pid"], each["name"], each["moved_bytes"]) for each in result["processes"]]
    assert names == [(ONE, "name1", MB), (TWO, "name2", 2 * MB)]


def test_text_of_several_processes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.start(ONE)
    world.start(TWO)
    world.becomes[TWO] = busy
    assert moves(str(ONE), str(TWO), "0", "1") == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("moved 1.05 MB (256 pages of 4 KB) of 2 processes in ")
    assert lines[1:] == [
        f"process {ONE} (name1): moved 1.05 MB (256 pages of 4 KB)",
        f"process {TWO} (name2): moved 0 B (0 pages of 4 KB)",
        "  stayed: 1.05 MB (256 pages of 4 KB): pinned or in use by the kernel [EBUSY]",
    ]


@pytest.mark.parametrize(
    ("becomes", "status"),
    [
        ((), 0),
        ((busy,), 3),
        ((fail(errno.ESRCH),), 4),
        ((fail(errno.ESRCH), busy), 4),
        ((fail(errno.EPERM), fail(errno.ESRCH)), 1),
        ((fail(errno.ESRCH), fail(errno.EPERM), busy), 1),
    ],
)
def test_the_worst_gives_the_status(
    becomes: tuple[Callable[[], Outcome], ...],
    status: int,
    world: World,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for pid in (ONE, TWO, THREE):
        world.start(pid)
    world.becomes = dict(zip((TWO, ONE, THREE), becomes, strict=False))
    words = [str(ONE), str(TWO), str(THREE), "0", "1", "--json"]
    try:
        assert moves(*words) == status
    except PagehaulError as exc:
        assert exc.status == status
        assert "\n" not in str(exc)
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["complete"]) == (status, status == 0)
    assert world.moved == [ONE, TWO, THREE], "one that fails does not keep the others"


def test_a_process_that_is_not_there(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.start(ONE)
    with pytest.raises(NoProcessError, match=f"^there is no process {TWO}$"):
        moves(str(TWO), str(ONE), "0", "1", "--json")
    assert world.moved == [ONE]
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["moved_bytes"]) == (4, MB)
    assert result["error"] == f"there is no process {TWO}"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((str(TWO), "0", "1"), 4, "there is no process"),
        (("0", "1"), 2, "no process is named"),
        ((str(ONE),), 2, "say from which nodes to which"),
        (("name", "0", "1"), 2, "name is not the number of a process"),
        (("--tree", "0", "0", "1"), 2, "0 is not the number of a process"),
        (("--tree", str(TWO), "0", "1"), 4, "there is no process"),
        (("--cgroup", "no-such", "0", "1"), 4, "there is no cgroup no-such"),
        ((str(ONE), "0", "0"), 1, "nothing to do"),
    ],
)
def test_errors_are_json_too(
    words: tuple[str, ...],
    status: int,
    message: str,
    world: World,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world.start(ONE)
    assert main.main(["move", *words, "--json"]) == status
    written = capsys.readouterr()
    result = json.loads(written.out)
    assert (result["status"], result["complete"]) == (status, False)
    assert message in result["error"]
    assert message in written.err
    assert not world.moved


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--json", "--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--rate", "much", "--json"], "argument --rate: invalid positive number value: 'much'"),
        (["--js", "--rate"], "argument --rate: expected one argument"),
    ],
)
def test_errors_of_the_parser_are_json_too(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["move", str(ONE), "0", "1", *words])
    written = capsys.readouterr()
    assert json.loads(written.out) == {"complete": False, "status": 2, "error": expected}
    assert stop.value.code == 2
    assert f"error: {expected}\n" in written.err


@pytest.mark.parametrize("words", [[], ["--", "--json"], ["--progress", "none"]])
def test_errors_of_the_parser_are_text(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main(["move", "--rate", "much", *words])
    assert capsys.readouterr().out == ""


def test_wrong_numbers_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--rate", "--max-stall", "--watch"):
        for value in ("0", "-1", "x", "inf", "nan"):
            with pytest.raises(SystemExit) as stop:
                main.main(["move", "1", "0", "1", f"{option}={value}"])
            assert stop.value.code == 2
            assert "invalid positive number value" in capsys.readouterr().err


def test_a_number_that_is_used_again_is_not_moved(world: World) -> None:
    world.start(ONE)
    world.start(TWO)

    def replace_two() -> Outcome:
        world.start(TWO, born=99)
        return Outcome(moved=MB)

    world.becomes[ONE] = replace_two
    with pytest.raises(NoProcessError, match=f"process {TWO}: it has ended"):
        moves(str(ONE), str(TWO), "0", "1")
    assert world.moved == [ONE]


def test_a_tree_is_looked_for_again(world: World) -> None:
    world.start(ONE)
    world.start(TWO, parent=ONE)

    def fork() -> Outcome:
        world.start(THREE, parent=TWO)
        return Outcome(moved=MB)

    world.becomes[TWO] = fork
    assert moves("--tree", str(ONE), "0", "1") == 0
    assert world.moved == [ONE, TWO, THREE]


def test_a_cgroup_is_looked_for_again(world: World, tmp_path: Path) -> None:
    procs = tmp_path / "cgroup.procs"
    world.start(ONE)
    world.start(TWO)
    procs.write_text(f"{ONE}\n")

    def join() -> Outcome:
        procs.write_text(f"{ONE}\n{TWO}\n")
        return Outcome(moved=MB)

    world.becomes[ONE] = join
    assert moves("--cgroup", str(tmp_path), "0", "1") == 0
    assert world.moved == [ONE, TWO]
    procs.write_text("")
    with pytest.raises(NoProcessError, match="no process in the cgroup or tree"):
        moves("--cgroup", str(tmp_path), "0", "1")


def test_who_was_not_named_may_end_or_be_the_kernels(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.start(ONE)
    world.start(TWO, parent=ONE)
    world.start(THREE, parent=ONE)
    world.becomes[TWO] = fail(errno.ESRCH)

    def mappings(process: Process, look: bool) -> Iterator[Mapping]:
        if process.pid == THREE:
            raise process._no_memory()
        return iter(())

    monkeypatch.setattr(Process, "mappings", mappings)
    assert moves("--tree", str(ONE), "0", "1", "--json") == 0
    processes = json.loads(capsys.readouterr().out)["processes"]
    assert [each["ended"] for each in processes] == [False, True, True]
    with pytest.raises(PagehaulError, match="no memory of its own"):
        moves(str(THREE), "0", "1")


def test_dry_run_of_several(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.start(ONE)
    world.start(TWO, 2 * MB, parent=ONE)
    assert moves("--tree", str(ONE), "0", "1", "--dry-run", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["found_bytes_by_node"] == {"0": 3 * MB}
    assert [each["found_bytes"] for each in result["processes"]] == [MB, 2 * MB]
    assert moves("--tree", str(ONE), "0", "1", "--dry-run") == 0
    assert capsys.readouterr().out.count("on node 0\n") == 2
    assert not world.moved


def test_a_signal_ends_a_dry_run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.start(ONE)
    world.start(TWO)
    original = Process.numa_maps

    def numa_maps(process: Process) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return original(process)

    monkeypatch.setattr(Process, "numa_maps", numa_maps)
    assert moves(str(ONE), str(TWO), "0", "1", "--dry-run", "--json") == 130
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["error"]) == (130, "interrupted")
    assert [each["pid"] for each in result["processes"]] == [ONE]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_account_of_all(
    number: signal.Signals, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for pid in (ONE, TWO, THREE):
        world.start(pid, 2 * MB)

    def interrupt() -> Outcome:
        os.kill(os.getpid(), number)
        world.on_node_0[TWO] -= MB
        return Outcome(moved=MB)

    world.becomes[TWO] = interrupt
    words = [str(ONE), str(TWO), str(THREE), "0", "1"]
    assert main.main(["move", *words]) == 128 + number
    written = capsys.readouterr()
    assert world.moved == [ONE, TWO]
    assert "moved 3.15 MB (768 pages of 4 KB) of 2 processes" in written.out
    assert "  not tried: 1.05 MB (256 pages of 4 KB)\n" in written.out
    assert written.out.endswith("ed\n")
    assert "Traceback" not in written.err


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let time pass only when somebody waits; the only item is the time."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    return now


def test_watching_ends_when_a_look_finds_nothing(
    world: World, seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    world.start(ONE, 3 * MB)
    later = [2 * MB, MB, 0]

    def grow() -> Outcome:
        size, world.on_node_0[ONE] = world.on_node_0[ONE], later.pop(0)
        return Outcome(moved=size)

    world.becomes[ONE] = grow
    assert moves(str(ONE), "0", "1", "--watch", "100", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["moved_bytes"] == result["found_bytes"] == 6 * MB
    assert world.moved == [ONE] * 3
    assert 3 <= seconds[0] - 1000 < 5


def test_watching_tries_again_what_was_busy(
    world: World, seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    world.start(ONE)

    def let_go() -> Outcome:
        if len(world.moved) < 4:
            return busy()
        world.on_node_0[ONE] = 0
        return Outcome(moved=MB)

    world.becomes[ONE] = let_go
    assert moves(str(ONE), "0", "1", "--watch", "100", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["moved_bytes"], result["left"], len(world.moved)) == (MB, [], 4)


def test_watching_ends_when_the_time_is_over(
    world: World, seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    world.start(ONE)
    world.becomes[ONE] = busy
    assert moves(str(ONE), "0", "1", "--watch", "7.5", "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert sum(each["bytes"] for each in result["left"]) == MB, "it is counted once"
    assert result["found_bytes"] == MB
    assert 7.5 <= seconds[0] - 1000 < 8
    assert len(world.moved) == 9


def test_watching_does_not_wait_for_what_is_not_asked_for(
    world: World, seconds: list[float]
) -> None:
    world.start(ONE)
    world.becomes[ONE] = lambda: Outcome(left=Counter({errno.EACCES: MB}))
    assert moves(str(ONE), "0", "1", "--watch", "100") == 0
    assert world.moved == [ONE]
    assert moves(str(ONE), "0", "1", "--watch", "3", "--all") == 3
    assert len(world.moved) > 3


def test_a_process_that_ends_while_it_is_watched(world: World, seconds: list[float]) -> None:
    world.start(ONE)

    def last() -> Outcome:
        if len(world.moved) == 2:
            raise ProcessLookupError(errno.ESRCH, "")
        return Outcome(moved=MB)

    world.becomes[ONE] = last
    assert moves(str(ONE), "0", "1", "--watch", "100") == 0
    assert len(world.moved) == 2


def test_to_a_tier(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world.start(ONE)
    sysfs = tmp_path / "tiers"
    for name, node in (("memory_tier4", "0"), ("memory_tier9", "1")):
        (sysfs / name).mkdir(parents=True)
        (sysfs / name / "nodelist").write_text(node)
    monkeypatch.setattr(planning, "tier_nodes", functools.partial(tiers.tier_nodes, sysfs=sysfs))
    assert moves(str(ONE), "--to-tier", "slow", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["from"], result["to"]) == ([0], [1])
    assert moves("--tree", str(ONE), "--to-tier", "fast", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["from"], result["to"]) == ([1], [0])
    with pytest.raises(UsageError, match="not the number of a process"):
        moves(str(ONE), "0", "1", "--to-tier", "slow")


def test_limits_are_what_the_options_say(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start(ONE)
    given = []

    class Noted(Pace):
        def __init__(self, *args: int, **limits: float | None) -> None:
            given.append(limits)
            super().__init__(*args, **limits)

    monkeypatch.setattr(move, "Pace", Noted)
    assert moves(str(ONE), "0", "1", "--rate", "250", "--max-stall", "20") == 0
    assert moves(str(ONE), "0", "1") == 0
    assert given == [{"rate": 250e6, "max_stall": 0.02}, {"rate": None, "max_stall": None}]


def test_a_rate_slows_the_verb_down(world: World, seconds: list[float]) -> None:
    world.start(ONE, 10 * MB)
    world.start(TWO, 10 * MB)
    assert moves(str(ONE), str(TWO), "0", "1", "--rate", "1") == 0
    assert seconds[0] - 1000 == pytest.approx(10 * MB / 1e6, rel=0.02)


def test_progress_as_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.start(ONE)
    assert moves(str(ONE), "0", "1", "--progress", "json", "--json") == 0
    written = capsys.readouterr()
    assert json.loads(written.out)["moved_bytes"] == MB
    last = json.loads(written.err.splitlines()[-1])
    assert (last["event"], last["moved_bytes"]) == ("end", MB)
