# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the `torture` verb that need no kernel."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagehaul.cli import torture as verb
from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Task
from pagehaul.kernel import build
from pagehaul.kernel.built import Kernel
from pagehaul.suites import torturing
from pagehaul.suites.outcomes import Outcome, Status, passed

FIGURES = {
    "seed": 7,
    "seconds": 60,
    "moved_bytes": 3 << 20,
    "verified_bytes": 5 << 20,
    "wrong_words": 0,
    "unexpected_errors": 0,
    "stuck": 0,
    "leaks": False,
    "faults_total": 12,
    "faults": {"failslab": 10, "knob": 2},
}

OUTPUT = f"""TAP version 13
1..2
# 60 s: 3 MB moved, 5 MB verified
# json {json.dumps(FIGURES)}
ok 1 no byte is wrong
ok 2 nobody is stuck
"""


def test_a_run_that_ended_has_its_figures() -> None:
    report = torturing.read_report(OUTPUT, "")
    assert report.passed
    assert report.figures["faults"] == {"failslab": 10, "knob": 2}
    assert [each.name for each in report.outcomes] == ["no byte is wrong", "nobody is stuck"]


def test_a_failed_test_fails_the_run() -> None:
    assert not torturing.read_report(OUTPUT.replace("ok 2", "not ok 2"), "").passed


def test_a_complaint_of_the_kernel_fails_the_run() -> None:
    report = torturing.read_report(OUTPUT, "BUG: something")
    assert not report.passed
    assert report.outcomes[-1].why == "BUG: something"


def test_a_run_without_an_end_fails() -> None:
    report = torturing.read_report("TAP version 13\n1..2\n", "")
    assert not report.passed
    assert not report.figures


def test_a_run_without_figures_has_not_passed() -> None:
    assert not torturing.read_report(OUTPUT.replace(json.dumps(FIGURES), "{}"), "").passed


def test_the_line_says_what_was_done() -> None:
    text = torturing.line(FIGURES)
    assert "seed 7, 60 s: 3 MB moved, 5 MB verified, 0 wrong words" in text
    assert "12 faults of 2 kinds" in text
    assert text.endswith("no leaks")


def test_the_line_says_whether_leaks_were_looked_for() -> None:
    assert torturing.line({**FIGURES, "leaks": None}).endswith("leaks not looked for")
    assert torturing.line({**FIGURES, "leaks": True}).endswith(" leaks")


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("minutes", ["0", "-1", "1441", "soon"])
def test_minutes_that_make_no_sense_are_refused(minutes: str) -> None:
    with pytest.raises(SystemExit):
        _arguments("--minutes", minutes)


@pytest.mark.parametrize(
    ("outcome", "status"), [(passed("a"), 0), (Outcome("a", Status.FAILED, "b"), 1)]
)
def test_the_verb_reports_and_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    outcome: Outcome,
    status: int,
) -> None:
    kernel = Kernel("torture", tmp_path, tmp_path, tmp_path, "6.12")
    asked = []

    def pretend(kernel: Kernel, seconds: int, seed: int) -> torturing.Report:
        asked.append((kernel.variant, seconds, seed))
        return torturing.Report([outcome], FIGURES)

    monkeypatch.setattr(build, "build", lambda variant, base: kernel)
    monkeypatch.setattr(torturing, "torture", pretend)
    file = tmp_path / "figures.json"
    assert verb.run(_arguments("--minutes", "0.5", "--seed", "7", "--json", str(file))) == status
    assert asked == [("torture", 30, 7)]
    assert json.loads(file.read_text())["passed"] is (status == 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 7"
    assert lines[-1].endswith("passed" if status == 0 else "FAILED")


def _pretend_guest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str
) -> tuple[Kernel, list[object]]:
    commands: list[object] = []

    def pretend(kernel: Kernel, guest: Guest, task: Task, **how: Any) -> None:
        commands.append(task.command)
        how["listener"].on_output("stdout", output.encode())

    monkeypatch.setattr(torturing, "log_dir", lambda: tmp_path)
    monkeypatch.setattr(torturing.tools, "require", lambda *names: None)
    monkeypatch.setattr(torturing.cprogs, "selftests", lambda *args: tmp_path)
    monkeypatch.setattr(vm, "run", pretend)
    return Kernel("torture", tmp_path, tmp_path, tmp_path, "6.12"), commands


@pytest.mark.parametrize("leaks", [None, False, True])
@pytest.mark.parametrize("variant", [v for v in torturing.VARIANTS if v != "kcsan"])
def test_a_kernel_that_should_look_for_leaks_and_does_not_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variant: str, leaks: bool | None
) -> None:
    output = OUTPUT.replace(json.dumps(FIGURES), json.dumps({**FIGURES, "leaks": leaks}))
    kernel, _ = _pretend_guest(monkeypatch, tmp_path, output)
    report = torturing.torture(replace(kernel, variant=variant), 60, 9)
    fails = leaks is None and variant in ("debug", "debug-pcp-compound")
    assert [each.name for each in report.outcomes if each.status is Status.FAILED] == (
        ["kmemleak"] if fails else []
    )


def test_the_program_is_told_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel, commands = _pretend_guest(monkeypatch, tmp_path, OUTPUT)
    assert torturing.torture(kernel, 60, 9).passed
    [command] = commands
    assert isinstance(command, list)
    text = command[-1]
    assert f"{tmp_path}/migrate_torture -t 60 -s 9 -d " in text
    assert "dcbm.ko" in text
    assert "mtcopy.ko" in text
    assert "softdma.ko" in text
    assert (tmp_path / "torture-torture.log").read_text() == OUTPUT
