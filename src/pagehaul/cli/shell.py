# SPDX-License-Identifier: GPL-2.0-only
"""The `shell` verb."""

import argparse
import sys

from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.guest import vm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `shell`."""
    options.add_guest(parser)


def run(args: argparse.Namespace) -> int:
    """Boot the kernel with root's shell on this terminal; Ctrl-d ends it."""
    if not sys.stdin.isatty():
        raise PagehaulError("a shell needs a terminal; `pagehaul run -- CMD` does without")
    first, *more = options.guests_of(args)
    if more:
        raise PagehaulError("a shell has one machine: give --cpus one number")
    return vm.shell(options.kernel_of(args), first)
