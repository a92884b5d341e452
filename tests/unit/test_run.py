# SPDX-License-Identifier: GPL-2.0-only
"""The options of a guest."""

import argparse
from pathlib import Path

import pytest

from pagehaul.cli import options
from pagehaul.cli import run as verb
from pagehaul.guest import models, vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Result
from pagehaul.kernel.built import Kernel


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args([*words, "--", "true", "--flag"])


def test_the_command_is_what_follows() -> None:
    for words in ((), ("--virtual-time",), ("--cpus", "2", "4"), ("--virtual-time", "grace")):
        assert _parsed(*words).command == ["true", "--flag"]


def test_a_machine_for_each_number_of_cpus() -> None:
    guests = options.guests_of(_parsed("--virtual-time", "grace", "--cpus", "1", "16"))
    assert [guest.cpus for guest in guests] == [1, 16]
    assert all(guest.model == models.load("grace") for guest in guests)


def test_real_time_without_the_option() -> None:
    (guest,) = options.guests_of(_parsed())
    assert guest.model is None
    (guest,) = options.guests_of(_parsed("--virtual-time"))
    assert guest.model == models.load(models.DEFAULT)


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parsed("--virtual-time", "abacus")
    assert "abacus" in capsys.readouterr().err


def test_one_boot_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel("vanilla", tmp_path, tmp_path / "image", tmp_path / "config", "6.12")
    monkeypatch.setattr(options, "kernel_of", lambda *_: kernel)
    logs = []

    def run(_: Kernel, guest: Guest, *__: object, **options: Path) -> Result:
        logs.append(options["log"].name)
        return Result(3 if guest.cpus == 1 else 0, "", "", options["log"], 1.0, "tcg")

    monkeypatch.setattr(vm, "run", run)
    args = _parsed("--cpus", "1", "2", "--log", str(tmp_path / "guest.log"))
    assert verb.run(args) == 3
    assert logs == ["guest-1.log", "guest-2.log"]
    shown = capsys.readouterr().err
    assert "1 CPU\n" in shown and "2 CPUs\n" in shown
