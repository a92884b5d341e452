# SPDX-License-Identifier: GPL-2.0-only
"""Pieces of a report's page: its style, its tables, and the notes that several tables share."""

import re
from collections import Counter
from collections.abc import Iterable
from html import escape

from pagehaul.bench.labels import Table
from pagehaul.bench.row import Statement
from pagehaul.report.chart import FONT_PX
from pagehaul.report.palette import DARK_PAPER, LIGHT_PAPER

_DARK = f"""--ink: #e3e6e8; --soft: #a3adb6; --paper: {DARK_PAPER};
  --line: #353c43; --stripe: #1c2126; --good: #5fd3a8; --bad: #ff8a80;"""

CSS = f"""
:root {{ color-scheme: light dark; --ink: #1d2329; --soft: #56616b; --paper: {LIGHT_PAPER};
  --line: #d6dade; --stripe: #f3f4f5; --good: #0b6e4f; --bad: #b3261e; }}
.hue {{ color: var(--light); }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }}
.hue {{ color: var(--dark); }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; margin: .5rem 0; }} h2 {{ font-size: 1.2rem; margin: .9rem 0 .4rem; }}
h3 {{ font-size: 1rem; margin: .9rem 0 .3rem; }} h4 {{ font-size: .9rem; margin: 1.2rem 0 .3rem; }}
a {{ color: inherit; }}
.wide {{ overflow-x: auto; max-width: 100%; width: fit-content; }}
.wide:focus-visible {{ outline: 2px solid var(--soft); }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem;
  overflow-wrap: normal; }}
th, td {{ padding: .1rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }}
th {{ white-space: normal; vertical-align: bottom; }}
th:first-child, td:first-child {{ text-align: left; }}
.text {{ text-align: left; }} td.long {{ white-space: normal; min-width: 12rem; }}
tbody tr:nth-child(even) {{ background: var(--stripe); }}
.caption, .facts {{ color: var(--soft); font-size: .85rem; max-width: 48rem; }}
.notes {{ color: var(--soft); font-size: .85rem; max-width: 48rem; padding-left: 1.6rem; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
.good::marker {{ content: "✓  "; }} .bad::marker {{ content: "✗  "; font-weight: bold; }}
.verdict {{ padding-left: 1.2rem; max-width: 60rem; }} .verdict li {{ margin: .2rem 0; }}
svg {{ color: var(--ink); }}
.plot {{ margin: 1rem 0; }} figcaption {{ font-weight: bold; font-size: .9rem; }}
.panels {{ display: grid; gap: 1.2rem 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--least)), 1fr)); }}
.panel {{ min-width: 0; break-inside: avoid; }}
.head, .below {{ font-size: .85rem; color: var(--soft); }} .below {{ text-align: center; }}
.room svg {{ display: block; overflow: visible; font-size: {FONT_PX}px; }}
.room text {{ fill: currentColor; }} .room .group {{ font-weight: bold;
  paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }}
.room line {{ stroke: currentColor; }} .room circle {{ fill: currentColor; }}
.room .grid {{ stroke: var(--line); }} .room .one {{ stroke-width: 1.5; }}
.room .solid {{ stroke-width: 2; }} .room .dash {{ stroke-width: 1.5; stroke-dasharray: 5 3; }}
.room .range {{ stroke-width: 5; opacity: .3; }} .room .leader {{ opacity: .4; }}
details {{ margin: .1rem 0; }} summary {{ cursor: pointer; font-weight: bold; }}
@media (max-width: 600px) {{ body {{ margin: 1rem auto; }}
  td.long {{ min-width: 9rem; }} }}
@media print {{ body {{ max-width: none; margin: 0; font-size: 10pt; }}
  .wide {{ overflow: visible; }} table {{ font-size: 7.5pt; }} th, td {{ padding: .1rem .3rem;
  white-space: normal; }} h2, h3, summary {{ break-after: avoid; }} tr {{ break-inside: avoid; }}
  details::details-content {{ content-visibility: visible; block-size: auto; }} }}
"""

# A cell with more letters may be broken. A column of words, and not of figures, begins at the left.
_LONG = 32
_WORD = re.compile(r"[A-Za-z]{3}")

# A longer statement of the verdict is a list of cells.

# A shorter sentence is no longer than a reference to it.
_LEAST_NOTE = 20


class Notes:
    """Sentences that several captions share: each is told once, at the end, with a number."""

    def __init__(self, captions: Iterable[str]) -> None:
        counts = Counter(part for text in captions for part in set(_sentences(text)))
        self._shared = {
            part for part, count in counts.items() if count > 1 and len(part) >= _LEAST_NOTE
        }
        self._numbers: dict[str, int] = {}

    def caption(self, text: str) -> str:
        """Return a caption for the page: what is its own, and the numbers of the rest."""
        parts = _sentences(text)
        own = " ".join(escape(part) for part in parts if part not in self._shared)
        numbers = [
            self._numbers.setdefault(part, len(self._numbers) + 1)
            for part in dict.fromkeys(parts)
            if part in self._shared
        ]
        links = ", ".join(f'<a href="#note-{n}">{n}</a>' for n in sorted(numbers))
        word = "Notes" if len(numbers) > 1 else "Note"
        return " ".join(filter(None, (own, f"{word} {links}." if links else "")))

    def tells(self, text: str) -> bool:
        """Whether a text is one of the notes that captions have referred to."""
        return text in self._numbers

    def section(self) -> str:
        """Return the list of all notes that captions have referred to, "" without any."""
        if not self._numbers:
            return ""
        told = "\n".join(
            f'<li id="note-{number}">{escape(text)}</li>' for text, number in self._numbers.items()
        )
        return f'<ol class="notes">\n{told}\n</ol>'


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=\.)\s+", text) if part]


def verdict_list(statements: Iterable[Statement]) -> str:
    """Return the verdict as a list."""
    told = "\n".join(
        f'<li class="{"good" if statement.good else "bad"}">{escape(statement.text)}</li>'
        for statement in statements
    )
    return f'<ul class="verdict">\n{told}\n</ul>'


def html_table(table: Table, heading: str, notes: Notes | None = None) -> str:
    """Return a table for the page, with its title as a heading such as "h3"."""
    return f"<{heading}>{escape(table.title)}</{heading}>\n{bare_table(table, notes)}"


def bare_table(table: Table, notes: Notes | None = None) -> str:
    """Return a table without its title, in a box of its own that scrolls where it is wide."""
    words = [any(map(_WORD.search, cells)) for cells in zip(*table.rows, strict=True)]
    words = words or [False] * len(table.header)
    head = "".join(
        f'<th scope="col"{_kind(word, "")}>{escape(cell)}</th>'
        for word, cell in zip(words, table.header, strict=True)
    )
    lines = [
        "".join(
            f"<td{_kind(word, cell)}>{escape(cell)}</td>"
            for word, cell in zip(words, row, strict=True)
        )
        for row in table.rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    caption = escape(table.caption) if notes is None else notes.caption(table.caption)
    told = f'\n<p class="caption">{caption}</p>' if caption else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{told}"
    )


def _kind(word: bool, text: str) -> str:
    """Return the classes of a cell, as an attribute: of words, and long enough to be broken."""
    kinds = [name for name, has in (("text", word), ("long", len(text) > _LONG)) if has]
    return f' class="{" ".join(kinds)}"' if kinds else ""
