# SPDX-License-Identifier: GPL-2.0-only
"""The `manual` verb: prints pagehaul(1), or the page of a verb."""

import argparse

from pagehaul.cli import roff
from pagehaul.cli.version import VERSION

# Verbs with a page of their own: those that people use who want nothing else of the tool.
PAGES = ("move",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = f"`{parser.prog} | man -l -` shows it."
    parser.add_argument(
        "verb",
        nargs="?",
        choices=PAGES,
        metavar="VERB",
        help=f"the page of this verb alone: {', '.join(PAGES)}",
    )


def run(args: argparse.Namespace) -> int:
    """Print the page."""
    parser = args.whole()
    text = roff.page(parser, VERSION)
    if args.verb is not None:
        text = roff.verb_page(parser, args.verb, VERSION)
    print(text, end="")
    return 0
