# SPDX-License-Identifier: GPL-2.0-only
"""The command line: exit codes, errors without tracebacks, verbs imported when used."""

import os
import signal
import subprocess
import sys
import time
import types

import pytest

from pagehaul import cli
from pagehaul.errors import PagehaulError


def verb(monkeypatch: pytest.MonkeyPatch, outcome: int | BaseException) -> None:
    """Make the verb `tree` return, or raise, `outcome`."""

    def run(args: object) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: module)


def test_exit_code_is_the_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    verb(monkeypatch, 7)
    assert cli.main(["tree"]) == 7


def test_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb(monkeypatch, PagehaulError("no [red]such[/] thing: do that"))
    assert cli.main(["tree"]) == 1
    assert capsys.readouterr().err == "pagehaul: error: no [red]such[/] thing: do that\n"


def test_interrupt_is_130_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb(monkeypatch, KeyboardInterrupt())
    assert cli.main(["tree"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_sigterm_ends_what_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def run(args: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            ended.append(True)
        return 0

    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: module)
    previous = signal.getsignal(signal.SIGTERM)
    try:
        assert cli.main(["tree"]) == 143
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert ended == [True]


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    verb(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["tree"])


@pytest.mark.parametrize("words", [["no-such-verb"], ["tree", "--no-such-option"], ["run"]])
def test_wrong_command_line_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "pagehaul" in capsys.readouterr().err


def test_no_verb_shows_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"pagehaul {name}" in capsys.readouterr().out


def test_verbs_are_imported_when_used() -> None:
    code = (
        "import sys, pagehaul.cli\n"
        "heavy = {module for module, _ in pagehaul.cli.COMMANDS.values()} | {'matplotlib'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
