# SPDX-License-Identifier: GPL-2.0-only
"""A guest that is listened to: what its programs print goes to a log, as it comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rich.markup import escape

from pagehaul import ui
from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, Listener, LostInterrupt, Task
from pagehaul.kernel.built import Kernel
from pagehaul.suites import races, room


@dataclass(frozen=True)
class Job:
    """A command for a guest, and where its output goes.

    The user sees title while it runs, beside what `detail` makes of all output so far when the
    command has printed to a stream. timeout is in seconds, boot included. A job that is alone has
    no other guest beside it: what it tests needs CPUs in time. stop is for another thread to set.
    """

    title: str
    log: Path
    command: Sequence[str]
    timeout: float
    detail: Callable[[str, bytes], str]
    alone: bool = False
    stop: Event | None = None


def console_of(log: Path) -> Path:
    """Return the log of the console, beside that of the programs."""
    return log.with_suffix(".console.log")


def run(kernel: Kernel, guest: Guest, job: Job) -> tuple[bytes, str]:
    """Run a job in a guest; return its output, and what ended the guest, or "".

    Where the emulator loses an interrupt, it is not the kernel that fails: the job is run once more
    in a new guest, and the first guest's log is kept.
    """
    with ui.step(job.title, job.log) as step:
        try:
            return _run(kernel, guest, job, step)
        except LostInterrupt:
            kept = console_of(job.log).with_suffix(".lost-interrupt.log")
            console_of(job.log).replace(kept)
            text = f"{job.title}: the emulator lost an interrupt, see {kept}; once more"
            ui.console.print(escape(text), soft_wrap=True)
        try:
            return _run(kernel, guest, job, step)
        except LostInterrupt as again:
            return b"", str(again)


def _run(kernel: Kernel, guest: Guest, job: Job, step: ui.Step) -> tuple[bytes, str]:
    received = bytearray()
    with job.log.open("wb") as out:

        def listen(stream: str, data: bytes) -> None:
            received.extend(data)
            out.write(data)
            out.flush()
            if text := job.detail(stream, bytes(received)):
                step.detail(text)

        task = Task(job.command, job.timeout, allow=races.allowed(kernel))
        listener = Listener(listen, job.stop)
        try:
            with room.hold(guest.total_mb(), alone=job.alone, stop=job.stop):
                vm.run(kernel, guest, task, log=console_of(job.log), listener=listener)
        except LostInterrupt:
            raise
        except GuestError as caught:
            return bytes(received), str(caught)
    return bytes(received), ""
