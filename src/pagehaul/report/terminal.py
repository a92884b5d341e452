# SPDX-License-Identifier: GPL-2.0-only
"""Results in the terminal: tables, what they were measured on, and the verdict."""

import textwrap

import rich.box
import rich.table
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from pagehaul import ui
from pagehaul.bench.labels import Table
from pagehaul.bench.row import Results
from pagehaul.bench.tables import by_model, experiment_table, published_table
from pagehaul.report import verdict
from pagehaul.report.facts import facts

# Where stdout is not a terminal there is no width to keep to.
_FILE_WIDTH = 160


def print_results(name: str, results: Results, *, named: bool) -> None:
    """Print all that is known of a run, under its name if it is to be `named`."""
    if named:
        _console().rule(name)
    for experiment in results.experiments():
        print_tables(results, experiment)
    print_summary(results)
    print_verdict(results)


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


def tell_part(results: Results, experiment: str) -> None:
    """Say in a line, on stderr, what came out of an experiment whose tables are not printed."""
    rows = results.of(experiment)
    ratios = [row.vs_vanilla for row in rows if row.kernel == "pagehaul" and row.vs_vanilla]
    text = f"{experiment}: {len(rows)} cells"
    if ratios:
        text += f", {min(ratios):.2f} to {max(ratios):.2f} times the unmodified kernel's speed"
    ui.console.print(f"[bold]{escape(text)}[/]", soft_wrap=True)


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


def say(text: str) -> None:
    """Print a sentence among the results."""
    _console().print(Text(text), soft_wrap=True)


def print_verdict(results: Results) -> None:
    """Print the verdict, a sentence a line; those about a missed goal are red."""
    console = _console()
    for statement in verdict.of(results):
        mark = Text("" if statement.good else "Goal missed: ", style="bold red")
        text = mark.append(statement.text, style="" if statement.good else "red")
        console.print(text, soft_wrap=True)
