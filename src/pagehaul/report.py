# SPDX-License-Identifier: GPL-2.0-only
"""The `report` verb: results as tables in the terminal, and as one self-contained page."""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from pagehaul import comparison
from pagehaul.bench.captions import TCG_CAVEAT
from pagehaul.bench.labels import Table
from pagehaul.bench.published_tables import published_table
from pagehaul.bench.results import Results, Statement, load
from pagehaul.bench.tables import by_model, experiment_table
from pagehaul.errors import PagehaulError
from pagehaul.page import page as page_of
from pagehaul.verdict import statements

# Where stdout is not a terminal there is no width to keep to.
_FILE_WIDTH = 160


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
        if len(loaded) > 1:
            _console().rule(str(path))
        for experiment in results.experiments():
            print_tables(results, experiment)
        print_summary(results)
        print_verdict(results)
    if args.html is not None:
        write_html(loaded, args.html)
    return 0


def _compare(args: argparse.Namespace) -> int:
    if args.files or args.html is not None:
        raise PagehaulError("--compare takes two files of results, and nothing else")
    before, after = (load(path) for path in args.compare)
    for table in comparison.tables(before, after):
        print_table(table)
    return 0


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def print_tables(results: Results, experiment: str) -> None:
    """Print an experiment's tables, one for each machine model, each beside published figures."""
    for part in by_model(results, experiment):
        print_table(experiment_table(part, experiment))
        beside = published_table(part, experiment)
        if beside is not None:
            print_table(beside)


def print_table(table: Table) -> None:
    """Print a table."""
    _console().print(drawn(table))


def drawn(table: Table) -> rich.table.Table:
    """Return a table for the terminal, with heads no wider than what is below them."""
    made = rich.table.Table(
        title=Text(table.title),
        caption=Text(table.caption),
        title_justify="left",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
    )
    for number, head in enumerate(table.header):
        words = head.split() or [""]
        width = max(len(text) for text in [*words, *(row[number] for row in table.rows)])
        made.add_column(
            Text("\n".join(textwrap.wrap(head, width))),
            justify="right" if number else "left",
            # On a narrow terminal a figure may break, but must not lose its end.
            overflow="fold",
        )
    for row in table.rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def print_summary(results: Results) -> None:
    """Print on what it ran, and what has to be known besides."""
    console = _console()
    for line in facts(results):
        console.print(Text(line))


def print_verdict(results: Results) -> None:
    """Print the verdict, each sentence green or red."""
    console = _console()
    for statement in verdict(results):
        style = "green" if statement.good else "bold red"
        mark = "good" if statement.good else "bad"
        console.print(Text(f"{mark}: {statement.text}", style=style))


def verdict(results: Results) -> tuple[Statement, ...]:
    """Return the verdict that goes with results, made of them if they have none."""
    return results.verdict or statements(results)


def facts(results: Results) -> list[str]:
    """Lines that say where figures come from, and what was left out."""
    environment = results.environment
    lines = []
    kernels: dict[str, Any] = environment.get("kernels", {})
    machines: dict[str, Any] = environment.get("machines", {})
    host: dict[str, Any] = environment.get("host", {})
    lines.append(
        f"{environment.get('date', 'no date')}, "
        + ", ".join(f"{name} {release}" for name, release in kernels.items())
        + (", quick run" if environment.get("quick") else "")
    )
    for name, machine in machines.items():
        described = ", ".join(f"{key} {_listed(value)}" for key, value in machine.items() if value)
        lines.append(f"machine {name}: {described}")
    if host:
        lines.append(f"host: {host.get('cpu')}, {host.get('cpus')} CPUs")
    if environment.get("boots"):
        lines.append(f"boots: {', '.join(environment['boots'])}")
    emulated = any(machine.get("accelerator") == "tcg" for machine in machines.values())
    if emulated and any(row.clock == "host" for row in results.rows):
        lines.append(TCG_CAVEAT)
    return lines + [f"note: {note}" for note in environment.get("notes", [])]


def _listed(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def write_html(all_results: Sequence[Results], path: Path) -> None:
    """Write one page, complete in itself, of all results."""
    try:
        path.write_text(page(all_results), encoding="utf-8")
    except OSError as error:
        raise PagehaulError(f"cannot write {path}: {error.strerror}") from error


def page(all_results: Sequence[Results]) -> str:
    """Return the HTML of a report."""
    return page_of(all_results, verdict, facts)
