# SPDX-License-Identifier: GPL-2.0-only
"""Suites in processes of their own, with scripts in place of the program; and room for guests."""

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.host import facts
from pagehaul.suites import apart, room
from pagehaul.suites.apart import Piece, Stage

# In place of the program: notes when it begins and ends, and does what its first word says.
PROGRAM = """\
import json, os, signal, sys, time
word, name, where, record = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[-1]

def note(what):
    with open(where, "a") as file:
        file.write(f"{what} {name}\\n")

note("begin")
if word == "wait":
    def end(*_):
        note("ended")
        raise SystemExit(143)
    signal.signal(signal.SIGTERM, end)
    print("waiting", flush=True)
    time.sleep(60)
if word == "burn":
    while time.process_time() < 0.5:
        pass
time.sleep(0.3)
print("the last word")
note("end")
if word == "broken":
    raise SystemExit("no memory")
status = "failed" if word == "failed" else "passed"
tests = [{"name": "a test", "status": status, "why": "its reason"}]
spent = {"guests": 2, "boot_s": 3, "run_s": 4}
if sys.argv[-2] == "--record":
    with open(record, "w") as file:
        json.dump({"suites": {name: tests}, "spent": spent}, file)
"""


@pytest.fixture
def notes(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(apart, "_COMMAND", (sys.executable, str(program)))
    monkeypatch.setattr(facts, "cpus", lambda: 2)
    return tmp_path / "notes"


def piece(
    notes: Path, name: str, stage: Stage, word: str = "passed", *, later: bool = False
) -> Piece:
    suite = "" if stage is Stage.BUILD else name
    return Piece(name, (word, name, str(notes)), stage, suite, later)


def test_builds_come_first_and_who_is_alone_last(
    notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = [
        piece(notes, "kernel", Stage.BUILD),
        piece(notes, "another", Stage.BUILD),
        piece(notes, "pinned", Stage.ALONE),
        piece(notes, "lint", Stage.BESIDE),
        piece(notes, "errors", Stage.GUESTS),
        piece(notes, "status", Stage.GUESTS),
    ]
    assert apart.run_pieces(pieces) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed, 0 skipped\n"
    lines = notes.read_text().splitlines()
    at = {line: number for number, line in enumerate(lines)}
    assert at["end kernel"] < at["begin another"]
    assert at["begin lint"] < at["end kernel"], "lint waited for a build"
    built = max(at["end another"], at["end lint"])
    assert built < min(at["begin errors"], at["begin status"])
    assert max(at["begin errors"], at["begin status"]) < min(at["end errors"], at["end status"])
    assert lines[-2:] == ["begin pinned", "end pinned"]


def test_kernels_of_another_base_are_built_beside_guests(notes: Path) -> None:
    pieces = [
        piece(notes, "kernel", Stage.BUILD),
        piece(notes, "older", Stage.BUILD, later=True),
        piece(notes, "older/errors", Stage.GUESTS, later=True),
        piece(notes, "older/compile", Stage.BESIDE, later=True),
        piece(notes, "errors", Stage.GUESTS),
        piece(notes, "status", Stage.GUESTS),
        piece(notes, "pinned", Stage.ALONE),
    ]
    assert apart.run_pieces(pieces) == 0
    lines = notes.read_text().splitlines()
    at = {line: number for number, line in enumerate(lines)}
    assert at["end kernel"] < min(at["begin older"], at["begin errors"], at["begin status"])
    assert at["begin errors"] < at["end older"], "the guests waited for a kernel of another base"
    assert at["end older"] < min(at["begin older/errors"], at["begin older/compile"])
    assert lines[-2:] == ["begin pinned", "end pinned"]


def test_the_table_says_where_the_time_went(notes: Path, cache: Path) -> None:
    pieces = [piece(notes, "errors", Stage.GUESTS, "burn"), piece(notes, "kernel", Stage.BUILD)]
    apart.run_pieces(pieces)
    head, errors, kernel, every = (cache / "logs" / apart.TABLE).read_text().splitlines()
    assert head.split() == ["wall", "s", "CPU", "s", "guests", "boots", "s", "run", "s"]
    name, wall, cpu, *guests = errors.split()
    assert name == "errors" and int(wall) >= 0 and int(cpu) >= 0 and guests == ["2", "3", "4"]
    assert kernel.split()[-3:] == ["0", "0", "0"]
    assert every.split()[0] == "all" and every.endswith("of 2 CPUs")
    text = apart.table({"a": apart.Done([], 10, 15)}, 10)
    assert "75% of 2 CPUs" in text


def test_cpu_time_is_that_of_the_process(notes: Path) -> None:
    status, cpu_s = apart._process(
        ["burn", "errors", str(notes)],
        notes.with_suffix(".log"),
        lambda line: None,
        threading.Event(),
    )
    assert status == 0 and 0.5 <= cpu_s < 5


def test_a_failed_test_fails_the_run(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = [
        piece(notes, "errors", Stage.GUESTS, "failed"),
        piece(notes, "status", Stage.GUESTS),
    ]
    assert apart.run_pieces(pieces) == 1
    output = capsys.readouterr()
    assert output.out == "1 passed, 1 failed, 0 skipped\n"
    assert "errors: a test" in output.err and "its reason" in output.err


@pytest.mark.parametrize(
    ("stage", "what"), [(Stage.GUESTS, "the suite"), (Stage.BUILD, "the build")]
)
def test_a_process_that_breaks_off_fails(
    notes: Path, capsys: pytest.CaptureFixture[str], stage: Stage, what: str
) -> None:
    assert apart.run_pieces([piece(notes, "errors", stage, "broken")]) == 1
    output = capsys.readouterr()
    assert f"errors: {what}" in output.err
    assert "ended with 1" in output.err and "no memory" in output.err


def test_a_suite_that_begins_too_late_fails(
    notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = [piece(notes, "errors", Stage.GUESTS), piece(notes, "pinned", Stage.ALONE)]
    assert apart.run_pieces(pieces, 0.3 / 60) == 1
    output = capsys.readouterr()
    assert output.out == "1 passed, 1 failed, 0 skipped\n"
    assert "pinned: the suite" in output.err and "has not begun 0.005 minutes" in output.err
    assert "begin pinned" not in notes.read_text()


def test_what_interrupts_the_run_ends_its_processes(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Event()

    def interrupt(*_: object) -> object:
        assert seen.wait(20)
        raise KeyboardInterrupt

    def detail(step: object, text: str) -> None:
        if text == "waiting":
            seen.set()

    monkeypatch.setattr(apart.ui.Step, "detail", detail)
    monkeypatch.setattr(apart, "read_record", interrupt)
    pieces = [
        piece(notes, "errors", Stage.GUESTS),
        piece(notes, "status", Stage.GUESTS, "wait"),
        piece(notes, "pinned", Stage.ALONE),
    ]
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        apart.run_pieces(pieces)
    assert time.monotonic() - started < 30
    lines = notes.read_text().splitlines()
    assert "ended status" in lines and "begin pinned" not in lines


@pytest.fixture
def memory(cache: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    free = {"mb": 1_000_000}
    monkeypatch.setattr(facts, "cpus", lambda: 2)
    monkeypatch.setattr(facts, "memory_available_mb", lambda: free["mb"])
    monkeypatch.setattr(room, "_LOOK_S", 0.01)
    return free


def waits(memory_mb: int, alone: bool = False) -> bool:
    """Whether one more guest would wait for a place."""
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    try:
        with room.hold(memory_mb, alone=alone, stop=stop):
            return False
    except PagehaulError as error:
        assert str(error) == "stopped"
        return True
    finally:
        timer.cancel()


def test_there_are_as_many_guests_as_cpus(memory: dict[str, int]) -> None:
    with room.hold(3072):
        assert not waits(3072)
        with room.hold(3072):
            assert waits(3072)
    assert not waits(3072)


def test_one_that_is_alone_has_nobody_beside_it(memory: dict[str, int]) -> None:
    with room.hold(3072):
        assert waits(3072, alone=True)
    with room.hold(3072, alone=True):
        assert waits(3072)
    assert not waits(3072, alone=True)


def test_guests_that_do_not_fit_come_after_each_other(memory: dict[str, int]) -> None:
    memory["mb"] = room.HOST_RESERVE_MB + 4000
    with room.hold(3072):
        # The first one has not taken its memory yet.
        assert waits(3072)
        assert not waits(900)
    # Nobody else is there: whether it fits is seen when it boots.
    assert not waits(9000)


def test_guests_come_in_the_order_in_which_they_ask(memory: dict[str, int]) -> None:
    order: list[str] = []
    begun = threading.Event()

    def guest(name: str, alone: bool) -> None:
        begun.set()
        with room.hold(3072, alone=alone):
            order.append(name)

    threads = []
    with room.hold(3072):
        for name, alone in (("large", True), ("small", False)):
            begun.clear()
            threads.append(threading.Thread(target=guest, args=(name, alone)))
            threads[-1].start()
            assert begun.wait(20)
            time.sleep(0.2)
        # There is a place for it, and another one has asked before.
        assert order == []
    for thread in threads:
        thread.join()
    assert order == ["large", "small"]


def test_guests_that_are_alone_do_not_wait_for_each_other(memory: dict[str, int]) -> None:
    ended: list[int] = []
    stop = threading.Event()

    def guest(number: int) -> None:
        with suppress(PagehaulError), room.hold(3072, alone=True, stop=stop):
            ended.append(number)

    threads = [threading.Thread(target=guest, args=(number,)) for number in range(4)]
    with room.hold(3072):
        with room.hold(3072):
            for thread in threads:
                thread.start()
        time.sleep(0.1)
    deadline = time.monotonic() + 20
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    stop.set()
    assert sorted(ended) == [0, 1, 2, 3]
