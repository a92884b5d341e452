# SPDX-License-Identifier: GPL-2.0-only
"""Options that several verbs have, and what they say: a base, a source, a guest, its kernel."""

import argparse
import re
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.guest import models
from pagehaul.guest.machine import Guest
from pagehaul.kernel import bases, build
from pagehaul.kernel.arches import ARCHES, X86_64, Arch
from pagehaul.kernel.built import Kernel

_SOURCE = (
    "kernel source: a directory, a tarball, or a version to get from kernel.org (default: Debian's)"
)


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which kernel it is about."""
    parser.add_argument(
        "--base",
        choices=bases.names(),
        default=bases.DEFAULT,
        help=f"the kernel that the series is laid over (default: {bases.DEFAULT})",
    )


def add_source(parser: argparse.ArgumentParser, where: str = "DIR|TARBALL|VERSION") -> None:
    """Add the option that says where the kernel's source is; `where` is its name in the help."""
    parser.add_argument("--source", metavar=where, help=_SOURCE)


def add_arch(parser: argparse.ArgumentParser) -> None:
    """Add the option that says for which architecture a kernel is."""
    parser.add_argument(
        "--arch",
        choices=ARCHES,
        default=X86_64.name,
        help="architecture and size of base pages (default: x86_64)",
    )


def size_mb(text: str) -> int:
    """MiB of a size such as 3072, 3072M or 3G, for argparse."""
    match = re.fullmatch(r"(\d+)([MmGg]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 3072M or 3G")
    return int(match[1]) * (1024 if match[2] in ("G", "g") else 1)


def add_guest(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which kernel to boot, in which machine."""
    default = Guest()
    parser.add_argument(
        "--variant",
        choices=[name for name in build.VARIANTS if not name.startswith("bench-")],
        default="pagehaul",
        help="which kernel (default: pagehaul)",
    )
    add_base(parser)
    add_source(parser, "DIR|TARBALL")
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


def kernel_of(args: argparse.Namespace, arch: Arch = X86_64) -> Kernel:
    """Return the kernel that the options name, built when it is not."""
    if args.kernel is None:
        return build.build(args.variant, bases.get(args.base), args.source, arch)
    kernel = build.foreign(args.kernel)
    if kernel.arch.kernel != arch.kernel:
        raise PagehaulError(f"{args.kernel} is for {kernel.arch.kernel}, not for {arch.kernel}")
    return kernel
