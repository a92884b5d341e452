# SPDX-License-Identifier: GPL-2.0-only
"""The `build` verb: builds a kernel, or Debian packages of it."""

import argparse
from pathlib import Path

from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, build, packages
from pagehaul.kernel.arches import ARCHES, X86_64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `build`."""
    parser.add_argument(
        "--variant",
        choices=build.VARIANTS,
        default="pagehaul",
        help="which kernel (default: pagehaul)",
    )
    options.add_arch(parser)
    options.add_base(parser)
    options.add_source(parser)
    parser.add_argument(
        "--deb",
        action="store_true",
        help="Debian packages to install, from the running kernel's configuration plus ours",
    )
    parser.add_argument(
        "--base-config", type=Path, metavar="FILE", help="with --deb: start from this configuration"
    )


def run(args: argparse.Namespace) -> int:
    """Build, and print the path of what came out."""
    arch = ARCHES[args.arch]
    if args.deb:
        if arch is not X86_64:
            raise PagehaulError("--deb makes packages for this machine; leave --arch out")
        for package in packages.build(args.base_config, bases.get(args.base), args.source):
            print(package)
        return 0
    if args.base_config is not None:
        raise PagehaulError("--base-config goes with --deb")
    print(build.build(args.variant, bases.get(args.base), args.source, arch).image)
    return 0
