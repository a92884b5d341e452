# SPDX-License-Identifier: GPL-2.0-only
"""The `run` verb, and the options of a guest that `shell` shares."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import models, vm
from pagehaul.guest.machine import Guest
from pagehaul.kernel import bases, build, source
from pagehaul.kernel.arches import ARCHES, X86_64, Arch


def size_mb(text: str) -> int:
    """MiB of a size such as 3072, 3072M or 3G, for argparse."""
    match = re.fullmatch(r"(\d+)([MmGg]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 3072M or 3G")
    return int(match[1]) * (1024 if match[2] in ("G", "g") else 1)


def add_guest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which kernel to boot, in which machine."""
    default = Guest()
    parser.add_argument(
        "--variant",
        choices=build.VARIANTS,
        default="pagehaul",
        help="which kernel (default: pagehaul)",
    )
    bases.add_argument(parser)
    parser.add_argument("--source", metavar="DIR|TARBALL", help=source.HELP)
    parser.add_argument("--kernel", type=Path, metavar="IMAGE", help="boot this image instead")
    parser.add_argument(
        "--cpus",
        type=int,
        nargs="+",
        default=[default.cpus],
        metavar="N",
        help="of several numbers, each is a boot of its own",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        default=default.nodes,
        metavar="N",
        help=f"NUMA nodes with CPUs (default {default.nodes})",
    )
    parser.add_argument(
        "--memory-only-nodes",
        type=int,
        default=default.memory_only_nodes,
        metavar="N",
        help="further nodes without CPUs, far from the others, as CXL memory is",
    )
    parser.add_argument(
        "--mem",
        type=size_mb,
        metavar="SIZE",
        help=f"of all nodes together, in MiB or with a suffix (default {X86_64.memory_mb})",
    )
    parser.add_argument(
        "--topology",
        metavar="T",
        help="such as sockets=1,dies=2,cores=2,threads=1 (default: a socket a node)",
    )
    parser.add_argument(
        "--accel",
        choices=("auto", "kvm", "tcg"),
        default=default.accel,
        help=f"KVM, emulation, or KVM where it works (default: {default.accel})",
    )
    parser.add_argument(
        "--virtual-time",
        nargs="?",
        const=models.DEFAULT,
        choices=models.names(),
        metavar="MODEL",
        help="simulate a machine, so that times do not depend on this one: "
        f"{', '.join(models.names())} (default {models.DEFAULT})",
    )
    parser.add_argument(
        "--icount", action="store_true", help="one CPU, one nanosecond an instruction (TCG)"
    )
    parser.add_argument(
        "--append", action="append", default=[], metavar="WORD", help="kernel parameter; repeatable"
    )


def guests_of(args: argparse.Namespace, arch: Arch = X86_64) -> list[Guest]:
    """Return the machines that the options describe, one for each number of CPUs."""
    return [_guest(args, arch, cpus) for cpus in args.cpus]


def _guest(args: argparse.Namespace, arch: Arch, cpus: int) -> Guest:
    model = None if args.virtual_time is None else models.load(args.virtual_time)
    return Guest(
        cpus=cpus,
        model=model,
        nodes=args.nodes,
        memory_only_nodes=args.memory_only_nodes,
        memory_mb=arch.memory_mb if args.mem is None else args.mem,
        topology=args.topology,
        accel=args.accel,
        icount=args.icount,
        append=tuple(args.append),
    )


def kernel_of(args: argparse.Namespace, arch: Arch = X86_64) -> build.Kernel:
    """Return the kernel that the options name, built when it is not."""
    if args.kernel is None:
        return build.build(args.variant, bases.get(args.base), args.source, arch)
    kernel = build.foreign(args.kernel)
    if kernel.arch.kernel != arch.kernel:
        raise PagehaulError(f"{args.kernel} is for {kernel.arch.kernel}, not for {arch.kernel}")
    return kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    add_guest_arguments(parser)
    build.add_arch_argument(parser)
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
    guests = guests_of(args, arch)
    kernel = kernel_of(args, arch)
    status = 0
    for guest in guests:
        log = args.log
        if len(guests) > 1:
            ui.console.print(f"[bold]{guest.cpus} CPU{'s' if guest.cpus > 1 else ''}[/]")
            log = None if log is None else log.with_stem(f"{log.stem}-{guest.cpus}")
        status = _run(kernel, guest, args.command, args.timeout, log) or status
    return status


def _run(
    kernel: build.Kernel, guest: Guest, command: Sequence[str], timeout: float, log: Path | None
) -> int:
    def show(stream: str, data: bytes) -> None:
        out = sys.stdout if stream == "stdout" else sys.stderr
        out.buffer.write(data)
        out.flush()

    result = vm.run(kernel, guest, command, timeout=timeout, log=log, on_output=show)
    how = result.accel if guest.model is None else f"virtual time ({guest.model.name})"
    ui.console.print(
        f"[dim]{kernel.release} on {how}, {result.seconds:.1f} s, console in {result.log}[/]",
        soft_wrap=True,
    )
    return result.returncode
