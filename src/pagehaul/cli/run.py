# SPDX-License-Identifier: GPL-2.0-only
"""The `run` verb: boots a kernel and runs a command in it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pagehaul import ui
from pagehaul.cli import options
from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Listener, Task
from pagehaul.kernel.arches import ARCHES
from pagehaul.kernel.built import Kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    options.add_guest(parser)
    options.add_arch(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="seconds for the boot and the command together (default 600)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="of the guest's console")
    parser.add_argument("command", nargs="+", metavar="CMD", help="after `--`")


def run(args: argparse.Namespace) -> int:
    """Boot the kernel, run the command, and return its exit status.

    With several numbers of CPUs it is that of the last boot that failed.
    """
    arch = ARCHES[args.arch]
    guests = options.guests_of(args, arch)
    kernel = options.kernel_of(args, arch)
    status = 0
    for guest in guests:
        log = args.log
        if len(guests) > 1:
            ui.console.print(f"[bold]{guest.cpus} CPU{'s' if guest.cpus > 1 else ''}[/]")
            log = None if log is None else log.with_stem(f"{log.stem}-{guest.cpus}")
        status = _run(kernel, guest, args.command, args.timeout, log) or status
    return status


def _run(
    kernel: Kernel, guest: Guest, command: Sequence[str], timeout: float, log: Path | None
) -> int:
    def show(stream: str, data: bytes) -> None:
        out = sys.stdout if stream == "stdout" else sys.stderr
        out.buffer.write(data)
        out.flush()

    result = vm.run(
        kernel, guest, Task(command, timeout), log=log, listener=Listener(on_output=show)
    )
    how = result.accel if guest.model is None else f"virtual time ({guest.model.name})"
    ui.console.print(
        f"[dim]{kernel.release} on {how}, {result.seconds:.1f} s, console in {result.log}[/]",
        soft_wrap=True,
    )
    return result.returncode
