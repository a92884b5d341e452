# SPDX-License-Identifier: GPL-2.0-only
"""Where the time of one cell went: tables, and a picture for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pagehaul.bench.labels import Table
from pagehaul.bench.profile import Profile
from pagehaul.bench.row import Results
from pagehaul.report import flame
from pagehaul.report.markup import html_table

_MOST_ROWS = 25


def tables(profile: Profile, title: str) -> list[Table]:
    """Return where the time went, who waited for whom, and which lines travelled."""
    total = profile.total_ps() or 1
    functions = sorted(profile.by_function().items(), key=lambda each: -each[1].total())
    cpus = sorted({sample.cpu for sample in profile.samples})
    busiest = sorted(cpus, key=lambda cpu: -sum(times[cpu] for _, times in functions))[:3]
    header = ["function", "share", "us, all CPUs", *(f"us, CPU {cpu}" for cpu in sorted(busiest))]
    rows = [
        [
            name,
            f"{times.total() / total:.1%}",
            f"{times.total() / 1e6:,.0f}",
            *(f"{times[cpu] / 1e6:,.0f}" for cpu in sorted(busiest)),
        ]
        for name, times in functions[:_MOST_ROWS]
    ]
    found = [_table(f"{title}: functions", header, rows, "Time in a function itself.")]
    waits = [
        [wants, how, f"{ps / total:.1%}", f"{ps / 1e6:,.0f}"]
        for (how, wants), ps in profile.waits().most_common(_MOST_ROWS)
    ]
    header = ["who waited", "in", "share", "us"]
    found.append(_table(f"{title}: waits", header, waits, "Time in which CPUs waited for others."))
    sites = sorted(profile.lines.items(), key=lambda each: (-each[1][1], -each[1][0]))
    lines = [[where, f"{count:,}", f"{ps / 1e6:,.0f}"] for where, (count, ps) in sites[:_MOST_ROWS]]
    header = ["instruction", "lines", "us"]
    caption = "Cache lines that lock-prefixed instructions took from other CPUs."
    found.append(_table(f"{title}: cache lines", header, lines, caption))
    return found


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], text: str) -> Table:
    return Table(title=title, caption=text, header=tuple(header), rows=tuple(map(tuple, rows)))


def html(profile: Profile, title: str) -> str:
    """Return the picture and the tables for the report's page."""
    drawn = (html_table(table, "h4") for table in tables(profile, title))
    return "\n".join([flame.picture(profile.folded()), *drawn])


def all_tables(found: Mapping[str, Profile]) -> list[Table]:
    """Return the tables of all guests, whose profiles come by what each of them was."""
    return [table for name, each in found.items() for table in tables(each, name)]


def with_profiles(results: Results, found: Mapping[str, Profile]) -> Results:
    """Return results whose page has the profiles."""
    sections: list[dict[str, Any]] = [
        {"title": name, "html": html(each, name)} for name, each in found.items()
    ]
    return replace(results, environment={**results.environment, "profiles": sections})
