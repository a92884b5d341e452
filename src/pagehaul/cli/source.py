# SPDX-License-Identifier: GPL-2.0-only
"""The `source` verb: gets the kernel's source, pristine, into the cache."""

import argparse

from pagehaul.cli import options
from pagehaul.kernel import bases, source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `source`."""
    options.add_base(parser)
    options.add_source(parser)


def run(args: argparse.Namespace) -> int:
    """Get the source and print where it is."""
    print(source.ensure(bases.get(args.base), args.source))
    return 0
