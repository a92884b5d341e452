# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is to do, who listens to it, and what it gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pagehaul.errors import PagehaulError


class GuestError(PagehaulError):
    """A guest did not start, crashed, complained, hung or took too long."""


class LostInterrupt(GuestError):
    """The emulator lost an interrupt of a guest, one of whose CPUs therefore sleeps for ever.

    Seen in seven of some 150 guests of QEMU 10.0.2, on the unmodified kernel as well: one CPU, once
    two of them, sleep in the idle loop with interrupts on. Their timers are periodic, as when the
    CPUs came up, and their APICs still have the timer's vector in service, which the handler ends
    first of all. No processor does that: the handler was never called, and no timer will fire.
    """


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

    on_output gets ("stdout"|"stderr", data) as it comes. stop is for another thread to set, to end
    the guest.
    """

    on_output: Callable[[str, bytes], None] | None = None
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
