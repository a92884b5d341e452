# SPDX-License-Identifier: GPL-2.0-only
"""The `manual` verb: prints pagehaul(1)."""

import argparse

from pagehaul.cli import roff
from pagehaul.cli.version import VERSION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = f"`{parser.prog} | man -l -` shows it."


def run(args: argparse.Namespace) -> int:
    """Print the page."""
    print(roff.page(args.whole(), VERSION), end="")
    return 0
