# SPDX-License-Identifier: GPL-2.0-only
"""The `series` verb: the patches as mails to send, or one by one, built and booted."""

import argparse
import tempfile
from pathlib import Path

from pagehaul.cli import options
from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, compose, mails, series, source
from pagehaul.paths import cache_dir
from pagehaul.suites import patches


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    options.add_base(parser)
    options.add_source(parser)
    parser.add_argument(
        "--part",
        action="append",
        choices=series.load().parts,
        metavar="NAME",
        help=f"only this part; may be repeated: {', '.join(series.load().parts)}; without it all, "
        f"but for {', '.join(series.APART)}",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR", help="write them there, as mails")
    what.add_argument(
        "--check",
        action="store_true",
        help="build and boot the kernel after each patch, and build it without what it may lack",
    )


def run(args: argparse.Namespace) -> int:
    """Write the series or check it; 1 when a patch does not build or boot."""
    base = bases.get(args.base)
    parts = args.part or [part for part in series.load().parts if part not in series.APART]
    pristine = source.ensure(base, args.source)
    with tempfile.TemporaryDirectory(prefix="series-", dir=cache_dir()) as directory:
        where = Path(directory) / "repository"
        where.mkdir()
        # They follow each other: those that are not asked for are beneath those that are.
        beneath = [part for part in series.load().parts if part not in series.APART[1:]]
        composed = compose.compose(base, pristine, {*beneath, *parts}, where)
        names = [patch.name for patch in series.load().chosen(base, parts)]
        if not names:
            raise PagehaulError(f"there is nothing of {', '.join(parts)} for {base.name}")
        if args.check:
            return patches.check(base, pristine, composed, names)
        for path in mails.write(pristine, composed, names, args.out):
            print(path)
    return 0
