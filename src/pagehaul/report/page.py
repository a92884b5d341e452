# SPDX-License-Identifier: GPL-2.0-only
"""The page of a report: verdict and picture, a table a question, and all else below."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from pagehaul.bench.beside import all_published_tables
from pagehaul.bench.labels import Table
from pagehaul.bench.row import Results, Statement
from pagehaul.bench.tables import by_model, experiment_table, published_table
from pagehaul.errors import PagehaulError
from pagehaul.report import plots, questions, verdict
from pagehaul.report.facts import facts
from pagehaul.report.markup import CSS, Notes, bare_table, html_table, verdict_list

TITLE = "Pagehaul: page migration, measured"

# The picture at the top of the page, if one of them was measured.
_BEST = ("scaling", "folio-count", "folio-size")

# Experiments with real programs: many, and each with a long table.
_WORK = "workload-"
_OF_WORK = "Real programs while memory moves"

_ABOVE = "Its picture is at the top of the page."


def write(all_results: Sequence[Results], path: Path) -> None:
    """Write one page, complete in itself, of all results; PagehaulError where that cannot be."""
    try:
        path.write_text(page(all_results), encoding="utf-8")
    except OSError as error:
        raise PagehaulError(f"cannot write {path}: {error.strerror}") from error


def page(all_results: Sequence[Results]) -> str:
    """Return the HTML of a report."""
    runs = [_Run(results) for results in all_results]
    published = all_published_tables()
    notes = Notes(table.caption for table in [*published, *(t for r in runs for t in r.all())])
    parts = [f"<h1>{TITLE}</h1>"]
    for number, run in enumerate(runs):
        if number:
            parts.append("<hr>")
        parts += run.html(notes, verdict.of(run.results))
    parts.append("<details><summary>All published throughputs of page migration</summary>")
    parts += [html_table(table, "h3", notes) for table in published]
    parts.append("</details>")
    if notes.section():
        # Browsers open what is folded where a link leads into it.
        parts += ["<details><summary>Notes</summary>", notes.section(), "</details>"]
    parts.append("<h2>Machine</h2>")
    for run in runs:
        told = [escape(fact) for fact in facts(run.results) if not notes.tells(fact)]
        parts.append(f'<p class="facts">{"<br>".join(told)}</p>')
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{CSS}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


class _Part:
    """The rows of an experiment with one machine model: table, picture and published figures."""

    def __init__(self, results: Results, experiment: str) -> None:
        self.experiment = experiment
        self.question = questions.question_of(experiment, results.of(experiment))
        self.table = experiment_table(results, experiment)
        self.beside = published_table(results, experiment)
        self.plot = plots.plot(results, experiment)

    def html(self, notes: Notes, above: bool) -> str:
        """Return what the page has of it, folded; `above` when its picture is at the top."""
        parts = [f"<details><summary>{escape(self.table.title)}</summary>"]
        if self.plot:
            parts.append(f'<p class="caption">{_ABOVE}</p>' if above else self.plot)
        parts.append(bare_table(self.table, notes))
        if self.beside is not None:
            parts.append(html_table(self.beside, "h3", notes))
        return "\n".join([*parts, "</details>"])


class _Run:
    """One run of the benchmark on the page."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.answers = questions.tables(results)
        self.parts = [
            _Part(each, experiment)
            for experiment in results.experiments()
            for each in by_model(results, experiment)
        ]

    def all(self) -> list[Table]:
        """Return all tables that the page has of the run."""
        beside = [part.beside for part in self.parts if part.beside is not None]
        return [*self.answers.values(), *(part.table for part in self.parts), *beside]

    def html(self, notes: Notes, statements: Sequence[Statement]) -> list[str]:
        """Return the verdict, the picture, and a section for each question."""
        parts = [verdict_list(statements)]
        shown = self._picture()
        if shown is not None:
            parts.append(shown.plot)
        asked = (questions.FAST, questions.LOSES, questions.COSTS, questions.DMA, questions.SMALL)
        for question in asked:
            mine = [part for part in self.parts if part.question == question]
            answer = self.answers.get(question)
            if answer is not None:
                parts.append(html_table(answer, "h2", notes))
            elif mine:
                parts.append(f"<h2>{question}</h2>")
            work = [part for part in mine if part.experiment.startswith(_WORK)]
            parts += [part.html(notes, part is shown) for part in mine if part not in work]
            parts += _folded(_OF_WORK, [part.html(notes, part is shown) for part in work])
        return [*parts, *_profiles(self.results)]

    def _picture(self) -> _Part | None:
        """Return the part whose picture is the first one of the page, None without any."""
        drawn = [part for part in self.parts if part.plot]
        best = [part for name in _BEST for part in drawn if part.experiment == name]
        return next(iter([*best, *drawn]), None)


def _folded(title: str, parts: list[str]) -> list[str]:
    """Return parts of the page within one that is folded, if they are several."""
    if len(parts) < 2:
        return parts
    return [f"<details><summary>{title}</summary>", *parts, "</details>"]


def _profiles(results: Results) -> list[str]:
    """Return the section of profiles, which profiles.py has made."""
    parts = []
    for profile in results.environment.get("profiles", []):
        if isinstance(profile, dict) and isinstance(profile.get("html"), str):
            title = profile.get("title", "profile")
            parts.append(f"<h3>{escape(str(title))}</h3>\n{profile['html']}")
    return ["<h2>Profiles</h2>", *parts] if parts else []
