# SPDX-License-Identifier: GPL-2.0-only
"""The `report` verb: results as tables in the terminal, and as one self-contained page."""

import argparse
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from pagehaul import plots, scaling
from pagehaul.captions import TCG_CAVEAT
from pagehaul.errors import PagehaulError
from pagehaul.labels import Table
from pagehaul.published_tables import all_published_tables, published_table
from pagehaul.results import Results, Statement, load
from pagehaul.tables import by_model, experiment_table
from pagehaul.verdict import statements

# Where stdout is not a terminal there is no width to keep to.
_FILE_WIDTH = 160

# The picture at the top of the page, if one of them was measured.
_BEST = (scaling.NAME, "folio-count", "folio-size")

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
.verdict { padding-left: 1.2rem; } .verdict li { margin: .2rem 0; }
svg { max-width: 100%; height: auto; color: var(--ink); }
details { margin-top: 2.5rem; } summary { cursor: pointer; font-weight: bold; }
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("files", nargs="+", type=Path, metavar="F.json", help="results of bench")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page with plots to F")


def run(args: argparse.Namespace) -> int:
    """Print the tables and the verdict, and write the page."""
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
    parts = ["<h1>Pagehaul: page migration, measured</h1>"]
    for number, results in enumerate(all_results):
        if number:
            parts.append("<hr>")
        parts += _html_results(results)
    parts.append("<details><summary>All published throughputs of page migration</summary>")
    parts += [html_table(table, "h3") for table in all_published_tables()]
    parts.append("</details>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Pagehaul: page migration, measured</title>\n<style>{_CSS}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _html_results(results: Results) -> list[str]:
    """Return what the page tells of one run: verdict and picture, then where it comes from."""
    sentences = "\n".join(
        f'<li class="{"good" if statement.good else "bad"}">{escape(statement.text)}</li>'
        for statement in verdict(results)
    )
    parts = [f'<ul class="verdict">\n{sentences}\n</ul>']
    shown = _picture(results)
    if shown is not None:
        parts.append(shown[2])
    parts.append('<p class="facts">' + "<br>".join(map(escape, facts(results))) + "</p>")
    for experiment in results.experiments():
        for part in by_model(results, experiment):
            parts.append(html_table(experiment_table(part, experiment), "h2"))
            if shown is None or shown[:2] != (experiment, part.rows[0].model):
                parts.append(plots.plot(part, experiment))
            beside = published_table(part, experiment)
            if beside is not None:
                parts.append(html_table(beside, "h3"))
    return [*parts, *_profiles(results)]


def _picture(results: Results) -> tuple[str, str | None, str] | None:
    """Return the first picture of the page, with its experiment and model, None without any."""
    names = results.experiments()
    for name in [*(each for each in _BEST if each in names), *names]:
        for part in by_model(results, name):
            svg = plots.plot(part, name)
            if svg:
                return name, part.rows[0].model, svg
    return None


def _profiles(results: Results) -> list[str]:
    """Return the section of profiles, which profile.py has made."""
    parts = []
    for profile in results.environment.get("profiles", []):
        if isinstance(profile, dict) and isinstance(profile.get("html"), str):
            title = profile.get("title", "profile")
            parts.append(f"<h3>{escape(str(title))}</h3>\n{profile['html']}")
    return ["<h2>Profiles</h2>", *parts] if parts else []


def html_table(table: Table, heading: str) -> str:
    """Return a table for the page, with its title as a heading such as "h3"."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"<{heading}>{escape(table.title)}</{heading}>\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f'</div>\n<p class="caption">{escape(table.caption)}</p>'
    )
