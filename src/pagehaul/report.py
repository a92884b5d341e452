# SPDX-License-Identifier: GPL-2.0-only
"""The `report` verb: results as tables in the terminal, and as one self-contained page."""

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from pagehaul import fault_tables, plots
from pagehaul.errors import PagehaulError
from pagehaul.results import Results, load
from pagehaul.tables import (
    TCG_CAVEAT,
    Table,
    all_published_tables,
    experiment_table,
    published_table,
)

# Where stdout is not a terminal there is no width to keep to.
_FILE_WIDTH = 160

_CSS = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6670; --paper: #fdfdfc;
  --line: #d6dade; --stripe: #f3f4f5; --good: #0b6e4f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6e8; --soft: #9aa4ad; --paper: #15191d;
  --line: #353c43; --stripe: #1c2126; --good: #5fd3a8; --bad: #ff8a80; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
tbody tr:nth-child(even) { background: var(--stripe); }
.caption, .facts { color: var(--soft); font-size: .85rem; max-width: 48rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: bold; }
svg { max-width: 100%; height: auto; color: var(--ink); }
details { margin-top: 2.5rem; } summary { cursor: pointer; font-weight: bold; }
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("files", nargs="+", type=Path, metavar="F.json", help="results of bench")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with plots to F")


def run(args: argparse.Namespace) -> int:
    """Print the tables, and write the page."""
    loaded = [load(path) for path in args.files]
    for path, results in zip(args.files, loaded, strict=True):
        if len(loaded) > 1:
            _console().rule(str(path))
        for experiment in results.experiments():
            print_tables(results, experiment)
        print_summary(results)
    if args.html is not None:
        write_html(loaded, args.html)
    return 0


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def print_tables(results: Results, experiment: str) -> None:
    """Print an experiment's table and, where there are some, published figures beside it."""
    _print(experiment_table(results, experiment))
    beside = published_table(results, experiment)
    if beside is not None:
        _print(beside)


def _print(table: Table) -> None:
    drawn = rich.table.Table(
        title=Text(table.title),
        caption=Text(table.caption),
        title_justify="left",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
    )
    for number, head in enumerate(table.header):
        drawn.add_column(Text(head), justify="left" if number == 0 else "right")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    _console().print(drawn)


def print_summary(results: Results) -> None:
    """Print what was verified, on what it ran, and what has to be known besides."""
    console = _console()
    for line in facts(results):
        console.print(Text(line))
    console.print(Text(verdict(results), style="green" if sound(results) else "bold red"))


def sound(results: Results) -> bool:
    """Whether every page arrived, and with the right content."""
    return not results.integrity.mismatches and not results.integrity.not_moved


def verdict(results: Results) -> str:
    """One line on the content of the pages."""
    integrity = results.integrity
    text = f"{integrity.bytes_verified / 1e9:,.1f} GB verified, {integrity.mismatches} mismatches"
    return text + (f", {integrity.not_moved} folios not moved" if integrity.not_moved else "")


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
        described = ", ".join(f"{key} {value}" for key, value in machine.items())
        lines.append(f"machine {name}: {described}")
    if host:
        lines.append(f"host: {host.get('cpu')}, {host.get('cpus')} CPUs")
    if environment.get("boots"):
        lines.append(f"boots: {', '.join(environment['boots'])}")
    if any(machine.get("accelerator") == "tcg" for machine in machines.values()):
        lines.append(TCG_CAVEAT)
    return lines + [f"note: {note}" for note in environment.get("notes", [])]


def write_html(all_results: Sequence[Results], path: Path) -> None:
    """Write one page, complete in itself, of all results."""
    try:
        path.write_text(page(all_results), encoding="utf-8")
    except OSError as error:
        raise PagehaulError(f"cannot write {path}: {error.strerror}") from error


def page(all_results: Sequence[Results]) -> str:
    """Return the HTML of a report."""
    parts = ["<h1>Pagehaul: page migration, measured</h1>"]
    for results in all_results:
        parts.append('<p class="facts">' + "<br>".join(map(escape, facts(results))) + "</p>")
        mark = "good" if sound(results) else "bad"
        parts.append(f'<p class="{mark}">{escape(verdict(results))}</p>')
        for experiment in results.experiments():
            parts.append(_html_table(experiment_table(results, experiment), "h2"))
            if experiment not in fault_tables.MAKERS:
                parts.append(plots.plot(results, experiment))
            beside = published_table(results, experiment)
            if beside is not None:
                parts.append(_html_table(beside, "h3"))
    parts.append("<details><summary>All published throughputs of page migration</summary>")
    parts += [_html_table(table, "h3") for table in all_published_tables()]
    parts.append("</details>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Pagehaul: page migration, measured</title>\n<style>{_CSS}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _html_table(table: Table, heading: str) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"<{heading}>{escape(table.title)}</{heading}>\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f'</div>\n<p class="caption">{escape(table.caption)}</p>'
    )
