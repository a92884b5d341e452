# SPDX-License-Identifier: GPL-2.0-only
"""The `run` verb, and the options of a guest that `shell` shares."""

import argparse
import re
import sys
from pathlib import Path

from pagehaul import build, source, ui, vm
from pagehaul.arches import ARCHES, X86_64, Arch
from pagehaul.errors import PagehaulError


def size_mb(text: str) -> int:
    """MiB of a size such as 3072, 3072M or 3G, for argparse."""
    match = re.fullmatch(r"(\d+)([MmGg]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 3072M or 3G")
    return int(match[1]) * (1024 if match[2] in ("G", "g") else 1)


def add_guest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which kernel to boot, in which machine."""
    default = vm.Guest()
    parser.add_argument("--variant", choices=build.VARIANTS, default="pagehaul")
    parser.add_argument("--source", metavar="DIR|TARBALL", help=source.HELP)
    parser.add_argument("--kernel", type=Path, metavar="IMAGE", help="boot this image instead")
    parser.add_argument("--cpus", type=int, default=default.cpus, metavar="N")
    parser.add_argument("--nodes", type=int, default=default.nodes, metavar="N")
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
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default=default.accel)
    parser.add_argument(
        "--icount", action="store_true", help="one CPU, one nanosecond an instruction (TCG)"
    )
    parser.add_argument(
        "--append", action="append", default=[], metavar="WORD", help="kernel parameter; repeatable"
    )


def guest_of(args: argparse.Namespace, arch: Arch = X86_64) -> vm.Guest:
    """Return the machine that the options describe."""
    return vm.Guest(
        cpus=args.cpus,
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
        return build.build(args.variant, args.source, arch)
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
    """Boot the kernel, run the command, and return its exit status."""
    arch = ARCHES[args.arch]
    guest = guest_of(args, arch)
    kernel = kernel_of(args, arch)

    def show(stream: str, data: bytes) -> None:
        out = sys.stdout if stream == "stdout" else sys.stderr
        out.buffer.write(data)
        out.flush()

    result = vm.run(kernel, guest, args.command, timeout=args.timeout, log=args.log, on_output=show)
    ui.console.print(
        f"[dim]{kernel.release} on {result.accel}, {result.seconds:.1f} s, "
        f"console in {result.log}[/]",
        soft_wrap=True,
    )
    return result.returncode
