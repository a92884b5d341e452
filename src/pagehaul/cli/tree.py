# SPDX-License-Identifier: GPL-2.0-only
"""The `tree` verb: lays Pagehaul's files and patches over a pristine kernel."""

import argparse

from pagehaul.cli import options
from pagehaul.kernel import bases, tree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tree`."""
    options.add_base(parser)
    options.add_source(parser)


def run(args: argparse.Namespace) -> int:
    """Bring Pagehaul's tree up to date and print where it is."""
    print(tree.prepare_variant("pagehaul", bases.get(args.base), source_of=args.source))
    return 0
