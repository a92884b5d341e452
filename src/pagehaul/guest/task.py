# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is to do, who listens to it, and what it gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pagehaul.errors import PagehaulError


class GuestError(PagehaulError):
    """A guest did not start, crashed, complained, hung or took too long."""


class EmulationBroke(GuestError):
    """The emulation brought the guest down, not the kernel.

    The kernel patches its code while other CPUs run it, behind a breakpoint. QEMU may run the
    breakpoint from a translation that is out of date, and the kernel, which knows of none, dies of
    it: "Oops: int3". A processor does not do that. It happens about once in a hundred guests,
    mostly while the kernel boots. Less often QEMU itself crashes while a guest maps its PCI
    devices, by an assertion of its own or by touching memory that it does not have. Once an idle
    CPU of the unmodified kernel slept on for two minutes though it had been woken or a timer of its
    was due: RCU, whose thread waited for that, complained of nobody but that CPU, and said itself
    that it might be wrong.
    """

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began  # whether the guest's command had begun


@dataclass(frozen=True)
class Task:
    """A command for a guest, and what the guest sees of the host.

    timeout, in seconds, covers the boot. stdin is the command's input. allow are regular
    expressions of console messages that would be an error otherwise. watched are directories in
    which the guest is to see what changes on the host while it runs. With files, programs with
    their libraries, the guest sees these at their paths, and nothing else of the host's: then a
    guest in virtual time has the same history each time.
    """

    command: Sequence[str]
    timeout: float
    stdin: str | None = None
    allow: Sequence[str] = ()
    watched: Sequence[Path] = ()
    files: Sequence[Path] | None = None


@dataclass(frozen=True)
class Listener:
    """Who wants to know while a guest runs, and may end it.

    on_output gets ("stdout"|"stderr", data) as it comes. on_restart is told to forget the output so
    far, where a guest that had begun its command is booted again. stop is for another thread to
    set, to end the guest.
    """

    on_output: Callable[[str, bytes], None] | None = None
    on_restart: Callable[[], None] | None = None
    stop: Event | None = None


@dataclass(frozen=True)
class Result:
    """What a guest's command gave.

    returncode is the command's, stdout and stderr its output; log is the console's log; seconds is
    the guest's whole life, boot included, by the host's clock; accel is what it ran on, "kvm" or
    "tcg". simulation is what the simulator counted in a guest in virtual time.
    """

    returncode: int
    stdout: str
    stderr: str
    log: Path
    seconds: float
    accel: str
    simulation: dict[str, object] | None = None
