# SPDX-License-Identifier: GPL-2.0-only
"""A guest that is listened to: what its programs print goes to a log, as it comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pagehaul import ui
from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, Listener, Task
from pagehaul.kernel.built import Kernel
from pagehaul.suites import races


@dataclass(frozen=True)
class Job:
    """A command for a guest, and where its output goes.

    The user sees title while it runs, beside what `detail` makes of all output so far when the
    command has printed to a stream. timeout is in seconds, boot included. stop is for another
    thread to set.
    """

    title: str
    log: Path
    command: Sequence[str]
    timeout: float
    detail: Callable[[str, bytes], str]
    stop: Event | None = None


def console_of(log: Path) -> Path:
    """Return the log of the console, beside that of the programs."""
    return log.with_suffix(".console.log")


def run(kernel: Kernel, guest: Guest, job: Job) -> tuple[bytes, str]:
    """Run a job in a guest; return its output, and what ended the guest, or ""."""
    received = bytearray()
    with ui.step(job.title, job.log) as step, job.log.open("ab") as out:
        out.truncate(0)

        def forget() -> None:
            received.clear()
            out.truncate(0)

        def listen(stream: str, data: bytes) -> None:
            received.extend(data)
            out.write(data)
            out.flush()
            if text := job.detail(stream, bytes(received)):
                step.detail(text)

        task = Task(job.command, job.timeout, allow=races.allowed(kernel))
        listener = Listener(listen, forget, job.stop)
        try:
            vm.run(kernel, guest, task, log=console_of(job.log), listener=listener)
        except GuestError as caught:
            return bytes(received), str(caught)
    return bytes(received), ""
