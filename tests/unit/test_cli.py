# SPDX-License-Identifier: GPL-2.0-only
"""The command line: exit codes, errors without tracebacks, verbs imported when used."""

import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from pagehaul import paths
from pagehaul.cli import main, verbs
from pagehaul.cli.version import VERSION
from pagehaul.errors import PagehaulError


def verb(monkeypatch: pytest.MonkeyPatch, outcome: int | BaseException) -> None:
    """Make the verb `tree` return, or raise, `outcome`."""

    def run(args: object) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr("importlib.import_module", lambda name: module)


def test_exit_code_is_the_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    verb(monkeypatch, 7)
    assert main.main(["tree"]) == 7


def test_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb(monkeypatch, PagehaulError("no [red]such[/] thing: do that"))
    assert main.main(["tree"]) == 1
    assert capsys.readouterr().err == "pagehaul: error: no [red]such[/] thing: do that\n"


def test_interrupt_is_130_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb(monkeypatch, KeyboardInterrupt())
    assert main.main(["tree"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_sigterm_ends_what_was_begun_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def run(args: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(True)
        return 0

    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr("importlib.import_module", lambda name: module)
    previous = signal.getsignal(signal.SIGTERM)
    try:
        assert main.main(["tree"]) == 143
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert ended == [True]


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    verb(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main.main(["tree"])


@pytest.mark.parametrize("words", [["no-such-verb"], ["tree", "--no-such-option"], ["run"]])
def test_wrong_command_line_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(words)
    assert stop.value.code == 2
    assert "pagehaul" in capsys.readouterr().err


def test_no_verb_shows_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in verbs.COMMANDS)


@pytest.mark.parametrize("name", verbs.COMMANDS)
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main([name, "--help"])
    assert stop.value.code == 0
    assert f"pagehaul {name}" in capsys.readouterr().out


def test_verbs_are_imported_when_used() -> None:
    code = (
        "import sys, pagehaul.cli.main\n"
        "from pagehaul.cli import verbs\n"
        "modules = {verbs.module_of(name) for name in verbs.COMMANDS}\n"
        "heavy = modules | {'matplotlib'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "not_needed"),
    [
        ("move", ("bench", "guest", "kernel", "report", "suites", "ui")),
        ("report", ("guest.vm", "guest.qemu", "kernel.build", "kernel.source", "suites")),
    ],
)
def test_a_verb_waits_for_nothing_that_it_does_not_need(
    name: str, not_needed: tuple[str, ...]
) -> None:
    code = (
        "import sys\n"
        "from pagehaul.cli import main, verbs\n"
        f"verbs.parser_of('{name}')\n"
        f"found = [each for each in sys.modules for other in {not_needed}\n"
        "         if each.startswith('pagehaul.' + other)]\n"
        "sys.exit(str(found) if found else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"pagehaul {VERSION}\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tool be where pip puts it, away from the repository."""
    monkeypatch.setattr(paths, "REPO", tmp_path)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", [name for name, each in verbs.COMMANDS.items() if not each.alone])
def test_an_installed_tool_says_which_verb_needs_a_clone(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([name, "--help"]) == 1
    assert capsys.readouterr().err == (
        f"pagehaul: error: `{name}` needs files of the repository: "
        f"run ./pagehaul {name} in a clone of it\n"
    )


@pytest.mark.usefixtures("installed")
def test_an_installed_tool_lists_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    main.main([])
    shown = capsys.readouterr().out
    for name, command in verbs.COMMANDS.items():
        assert (f"  {name} " in shown) == command.alone
        assert command.alone or f" {name}" in shown.rpartition("also has:")[2]


def test_an_installed_tool_needs_only_what_it_declares(tmp_path: Path) -> None:
    """Its own verbs run in a copy of the package alone, without what only a clone needs."""
    shutil.copytree(paths.REPO / "src/pagehaul", tmp_path / "lib/pagehaul")
    code = (
        "import sys\n"
        "sys.modules.update(shtab=None, pytest=None)\n"
        "from pagehaul import paths\n"
        "from pagehaul.cli import main, verbs\n"
        "assert not paths.in_clone() and verbs.here()\n"
        "for name in verbs.here():\n"
        "    verbs.parser_of(name)\n"
        "assert main.main(['completion', 'fish']) == 0\n"
        "main.main(['move', '--help'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: pagehaul move" in done.stdout
