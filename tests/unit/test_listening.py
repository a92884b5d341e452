# SPDX-License-Identifier: GPL-2.0-only
"""A job in a guest: what is heard of it, and what happens where the emulator loses an interrupt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_suites import KERNEL

from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, LostInterrupt
from pagehaul.suites import listening


@pytest.fixture
def job(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a job in guests that end with these errors, and the next one well."""

    def run(*errors: GuestError) -> tuple[int, tuple[bytes, str]]:
        boots = 0

        def booted(*_: object, log: Path, listener: Any) -> None:
            nonlocal boots
            boots += 1
            log.write_text(f"console {boots}")
            listener.on_output("stdout", f"ok {boots}\n".encode())
            if boots <= len(errors):
                raise errors[boots - 1]

        monkeypatch.setattr(vm, "run", booted)
        made = listening.Job("a job", tmp_path / "job.log", ["true"], 1.0, lambda *_: "")
        found = listening.run(KERNEL, Guest(memory_mb=512), made)
        return boots, found

    return run


def test_a_job_runs_once_more_where_the_emulator_lost_an_interrupt(
    job: Callable[..., Any], tmp_path: Path
) -> None:
    assert job(LostInterrupt("lost")) == (2, (b"ok 2\n", ""))
    assert (tmp_path / "job.log").read_bytes() == b"ok 2\n"
    assert (tmp_path / "job.console.lost-interrupt.log").read_text() == "console 1"
    assert (tmp_path / "job.console.log").read_text() == "console 2"


def test_a_second_loss_is_a_failure(job: Callable[..., Any]) -> None:
    boots, (_, error) = job(LostInterrupt("lost"), LostInterrupt("lost again"))
    assert (boots, error) == (2, "lost again")


def test_nothing_else_is_run_again(job: Callable[..., Any]) -> None:
    assert job(GuestError("the kernel complained")) == (1, (b"ok 1\n", "the kernel complained"))
