# SPDX-License-Identifier: GPL-2.0-only
"""Boots a kernel and runs a command in it, on the board of its architecture."""

import itertools
import os
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Protocol

from pagehaul.errors import PagehaulError
from pagehaul.guest import monitor, script, virtual_time
from pagehaul.guest.boards import arm64, x86
from pagehaul.guest.machine import Guest
from pagehaul.guest.session import Session
from pagehaul.guest.task import GuestError, Listener, LostInterrupt, Result, Task
from pagehaul.kernel.arches import ARM64, X86_64
from pagehaul.kernel.built import Kernel
from pagehaul.paths import REPO, cache_dir, log_dir, read_record

# Guests that begin in the same second have logs of their own.
_LOGS = (f"{os.getpid()}.{number}" for number in itertools.count(1))

_NOBODY = Listener()


class Board(Protocol):
    """What guests of an architecture are booted on."""

    def prepare(self, kernel: Kernel, guest: Guest) -> Guest:
        """Return `guest` as it can be had; PagehaulError if it cannot."""

    def boot(self, kernel: Kernel, guest: Guest, task: Task, work: Path) -> list[str]:
        """Return the command that boots a guest that does `task`; its files are in `work`."""

    def environment(self) -> dict[str, str] | None:
        """Return the environment of that command, None for that of this process."""


# By the kernel's own name of the architecture.
_BOARDS: dict[str, Board] = {X86_64.kernel: x86, ARM64.kernel: arm64}


def run(
    kernel: Kernel,
    guest: Guest,
    task: Task,
    *,
    log: Path | None = None,
    listener: Listener = _NOBODY,
) -> Result:
    """Boot `kernel` in `guest`, run the task as root with the repository as working directory.

    A guest for arm64 sees no files of the host, and its working directory is its root.

    A non-zero exit status is the caller's business; GuestError is raised, with the last lines of
    the console, when the kernel panics, oopses, warns or hangs, when the guest ends before its
    command, and when the time is up or the guest is stopped. The console's log is kept in any case.
    """
    guest = _BOARDS[kernel.arch.kernel].prepare(kernel, guest)
    if log is None:
        log = log_dir() / f"guest-{kernel.label}-{time.strftime('%Y%m%d-%H%M%S')}-{next(_LOGS)}.log"
    log = log.absolute()
    log.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="guest-", dir=cache_dir()))
    try:
        return _run(kernel, guest, task, log, listener, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(
    kernel: Kernel, guest: Guest, task: Task, log: Path, listener: Listener, work: Path
) -> Result:
    board = _BOARDS[kernel.arch.kernel]
    boot = board.boot(kernel, guest, task, work)
    stuck = partial(monitor.stuck, work, kernel.tree) if guest.accel == "tcg" else lambda: ""
    session = Session(task, listener, work, partial(monitor.tell, work, kernel.tree), stuck)
    pin = partial(monitor.pin, work, guest.binding.cpus) if guest.binding is not None else None
    session.run(boot, board.environment(), log, pin)
    how = guest.accel if guest.model is None else f"virtual time, {guest.model.name}"
    what = f"the {kernel.label} guest ({how})"
    console = session.console
    if guest.accel == "tcg" and monitor.lost_interrupt(console.text()):
        raise LostInterrupt(console.report(f"{what}: the emulator lost an interrupt", log))
    if console.splat is not None:
        raise GuestError(console.report(f"{what}: the kernel complained: {console.splat}", log))
    if session.overdue:
        raise GuestError(console.report(f"{what}: {session.overdue}", log))
    status = session.streams["status"].decode().strip()
    if not status.isdigit():
        if guest.model is not None and not session.begun():
            _check_simulation(console.text(), log)
        why = ": a signal ended QEMU" if script.crashed(work) else ""
        raise GuestError(console.report(f"{what} ended before its command did{why}", log))
    counted = None
    if guest.model is not None:
        counted = read_record(virtual_time.report_of(work))
        if not counted:
            raise GuestError(console.report(f"{what}: the simulator left no report", log))
    return Result(
        returncode=int(status),
        stdout=session.streams["stdout"].decode(errors="replace"),
        stderr=session.streams["stderr"].decode(errors="replace"),
        log=log,
        seconds=session.seconds,
        accel=guest.accel,
        simulation=counted,
    )


def _check_simulation(printed: str, log: Path) -> None:
    """Raise GuestError if QEMU printed that it could not begin to simulate."""
    line = virtual_time.failure(printed)
    if line is not None:
        raise GuestError(f"virtual time did not start: {line}; the whole log is in {log}")


def shell(kernel: Kernel, guest: Guest) -> int:
    """Boot `kernel` in `guest` with root's shell on this terminal; its exit status."""
    if kernel.arch is not X86_64:
        raise PagehaulError(f"no shell on {kernel.arch.name}; `pagehaul run` runs commands there")
    guest = x86.prepare(kernel, guest)
    with tempfile.TemporaryDirectory(prefix="guest-", dir=cache_dir()) as work:
        command = x86.shell(kernel, guest, Path(work))
        return subprocess.run(command, env=x86.environment(), cwd=REPO, check=False).returncode
