# SPDX-License-Identifier: GPL-2.0-only
"""A guest while it runs: its streams, its console, and how long it may take.

The kernel's console has the serial line to itself, and is watched for anything a healthy kernel
does not print.
"""

import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from pagehaul.guest import spent
from pagehaul.guest.console import Console
from pagehaul.guest.script import POWER_OFF_S
from pagehaul.guest.task import Listener, Task
from pagehaul.paths import REPO
from pagehaul.ui import ending_with_us, kill_group

# Seconds a guest may go on after it reported a hang, so that the reports of all tasks get out.
_HANG_GRACE_S = 15.0

# Why a guest was ended that another thread did not want any more.
_STOPPED = "stopped"

# Seconds without a word of the guest after which somebody looks whether it can still go on, and
# then between two looks.
_SILENT_S = 20.0


class Session:
    """A guest that runs: what it has printed so far, and why it had to be ended, if it had to.

    state tells, in lines, what the processors do of a guest that is about to be ended. stuck tells
    of a guest that has been silent why it cannot go on, "" if it may.
    streams are the bytes of "stdout", "stderr" and "status". overdue is "" for one that ended by
    itself. seconds is its whole life, boot included, by the host's clock.
    """

    def __init__(
        self,
        task: Task,
        listener: Listener,
        work: Path,
        state: Callable[[], list[str]],
        stuck: Callable[[], str],
    ) -> None:
        self._listener = listener
        self._work = work
        self._state = state
        self._stuck = stuck
        self._started = self._looked = time.monotonic()
        self._deadline = self._started + task.timeout
        self._bound = f"not finished after {task.timeout:.0f} s"
        self._fifos: dict[str, int] = {}
        self.streams = {name: bytearray() for name in ("stdout", "stderr", "status")}
        self.console = Console(task.allow)
        self.overdue = ""
        self.seconds = 0.0

    def run(
        self,
        boot: Sequence[str],
        environment: dict[str, str] | None,
        log: Path,
        on_begin: Callable[[Callable[[], bool]], None] | None = None,
    ) -> None:
        """Run the command that boots the guest, until it ends or has to; keep its console.

        on_begin is called when it has begun, with what tells whether it still runs.
        """
        with log.open("wb") as log_file, selectors.DefaultSelector() as selector:
            log_file.write(f"$ {shlex.join(boot)}\n".encode())
            log_file.flush()
            process = subprocess.Popen(
                boot,
                env=environment,
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            booted = 0.0
            try:
                assert process.stdout is not None
                selector.register(process.stdout.fileno(), selectors.EVENT_READ, "console")
                for name in self.streams:
                    # Non-blocking: qemu opens its end later, or never.
                    self._fifos[name] = os.open(self._work / name, os.O_RDONLY | os.O_NONBLOCK)
                    selector.register(self._fifos[name], selectors.EVENT_READ, name)
                if on_begin is not None:
                    on_begin(lambda: process.poll() is None)
                with ending_with_us(process):
                    while self._read(selector, log_file) and not self._expired():
                        if not booted and self.begun():
                            booted = time.monotonic() - self._started
                if self.overdue and self.overdue != _STOPPED:
                    told = "".join(f"{line}\n" for line in ("", *self._state())).encode()
                    log_file.write(told)
                    self.console.feed(told)
                for name in self._fifos:
                    self._drain(name)
            finally:
                kill_group(process)
                if process.stdout is not None:
                    process.stdout.close()
                for descriptor in self._fifos.values():
                    os.close(descriptor)
        self.seconds = time.monotonic() - self._started
        booted = booted or self.seconds
        spent.add(guests=1, boot_s=booted, run_s=self.seconds - booted)

    def begun(self) -> bool:
        """Whether the command has said anything."""
        return any(self.streams.values())

    def _read(self, selector: selectors.BaseSelector, log_file: IO[bytes]) -> bool:
        """Take what the guest has printed within a second; whether it still runs."""
        alive = True
        for key, _ in selector.select(1.0):
            data = os.read(key.fd, 65536)
            self._looked = time.monotonic()
            if key.data == "console":
                alive = bool(data)
                log_file.write(data)
                log_file.flush()
                self.console.feed(data)
            elif data:
                self._take(key.data, data)
            else:
                selector.unregister(key.fd)
        return alive

    def _take(self, name: str, data: bytes) -> None:
        self.streams[name] += data
        if self._listener.on_output is not None and name != "status":
            self._listener.on_output(name, data)

    def _expired(self) -> bool:
        """Whether the guest has to end now."""
        now = time.monotonic()
        stop = self._listener.stop
        if self.console.hung and not self._bound.startswith("hung"):
            self._bound = "hung"
            self._deadline = min(self._deadline, now + _HANG_GRACE_S)
        elif self.streams["status"].endswith(b"\n") and self._bound.startswith("not finished"):
            self._bound = f"not powered off {POWER_OFF_S:.0f} s after its command ended"
            self._deadline = now + POWER_OFF_S
        elif stop is not None and stop.is_set():
            self._bound, self._deadline = _STOPPED, now
        elif now - self._looked >= _SILENT_S:
            if why := self._stuck():
                self._bound, self._deadline = why, now
            self._looked = time.monotonic()
        if now >= self._deadline:
            self.overdue = self._bound
        return bool(self.overdue)

    def _drain(self, name: str) -> None:
        """Read what the guest's last moments left in a pipe."""
        while True:
            try:
                data = os.read(self._fifos[name], 65536)
            except BlockingIOError:
                return
            if not data:
                return
            self._take(name, data)
