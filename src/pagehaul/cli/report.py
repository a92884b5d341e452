# SPDX-License-Identifier: GPL-2.0-only
"""The `report` verb: shows results as tables in the terminal, and as a page."""

import argparse
from pathlib import Path

from pagehaul.bench.store import load
from pagehaul.errors import PagehaulError
from pagehaul.report import comparison, page, terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("files", nargs="*", type=Path, metavar="F.json", help="results of bench")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("A", "B"),
        help="only tell which cells are faster or slower in the results B than in A",
    )
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with plots to F")


def run(args: argparse.Namespace) -> int:
    """Print the tables and the verdict, and write the page; or compare two runs.

    Raises PagehaulError when a file is not one of results, and when the page cannot be written.
    """
    if args.compare is not None:
        return _compare(args)
    if not args.files:
        raise PagehaulError("report needs a file of results: bench says at its end where they are")
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise PagehaulError(f"cannot write {args.html}: its directory does not exist")
    loaded = [load(path) for path in args.files]
    for path, results in zip(args.files, loaded, strict=True):
        terminal.print_results(str(path), results, named=len(loaded) > 1)
    if args.html is not None:
        page.write(loaded, args.html)
    return 0


def _compare(args: argparse.Namespace) -> int:
    if args.files or args.html is not None:
        raise PagehaulError("--compare takes two files of results, and nothing else")
    before, after = (load(path) for path in args.compare)
    for table in comparison.tables(before, after):
        terminal.print_table(table)
    return 0
