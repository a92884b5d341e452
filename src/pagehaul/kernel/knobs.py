# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's knobs, each described once, in docs/knobs.toml.

`python -m pagehaul.kernel.knobs` writes their tables into docs/guide.md, those of copy engines into
docs/dma.md, between two markers.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.paths import REPO

DESCRIPTION = REPO / "docs/knobs.toml"
DOCUMENTS = {name: REPO / f"docs/{name}.md" for name in ("guide", "dma")}

BEGIN = "<!-- knobs: made by `python -m pagehaul.kernel.knobs` from docs/knobs.toml -->"
END = "<!-- knobs: end -->"

# Limits that depend on the machine, as the table names them.
_LIMITS = {"cpus": "the possible CPUs", "page": "a base page"}

# Limits above this one keep a number from overflowing, and mean nothing to readers.
_LIMITLESS = 1 << 20


@dataclass(frozen=True)
class Knob:
    """A file that sets or shows something.

    values: words that it takes. least and most: the limits of a number, None where it takes none;
    "cpus" and "page" are limits that depend on the machine. at_most: a limit beside `most`.
    """

    name: str
    default: str
    text: str
    values: tuple[str, ...] = ()
    least: int | str | None = None
    most: int | str | None = None
    at_most: int | None = None
    unit: str = ""
    read_only: bool = False
    write_only: bool = False

    @property
    def range(self) -> str:
        """What can be written, for the table."""
        if self.read_only:
            return "read-only"
        parts = [f"`{value}`" if value.isidentifier() else value for value in self.values]
        if (self.least, self.most) == (0, 1):
            parts += ["0", "1"]
        elif self.least is not None:
            parts.append(self._limits())
        return ", ".join(parts)

    def _limits(self) -> str:
        least, most = (_LIMITS.get(str(each), str(each)) for each in (self.least, self.most))
        most = "any number" if most.isdecimal() and int(most) > _LIMITLESS else most
        limit = f", at most {self.at_most}" if self.at_most is not None else ""
        unit = f" {self.unit}" if self.unit else ""
        return f"{least} to {most}{limit}{unit}"


@dataclass(frozen=True)
class Directory:
    """Knobs that lie together.

    source: how the paths of the sources that make them begin. document: which of DOCUMENTS has the
    table.
    """

    path: str
    title: str
    source: str
    document: str
    knobs: tuple[Knob, ...]


def read(path: Path = DESCRIPTION) -> tuple[Directory, ...]:
    """Return what is described; KeyError where a knob lacks a field."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Directory(
            path=each["path"],
            title=each["title"],
            source=each["source"],
            document=each["document"],
            knobs=tuple(
                Knob(
                    name=knob["name"],
                    default=knob["default"],
                    text=knob["text"],
                    values=tuple(knob.get("values", ())),
                    least=knob.get("min"),
                    most=knob.get("max"),
                    at_most=knob.get("at_most"),
                    unit=knob.get("unit", ""),
                    read_only=knob.get("read_only", False),
                    write_only=knob.get("write_only", False),
                )
                for knob in each["knob"]
            ),
        )
        for each in found["directory"]
    )


def tables(directories: Iterable[Directory]) -> str:
    """Return a table for each directory, in Markdown."""
    lines = []
    for directory in directories:
        lines += [f"**{directory.title}**, `{directory.path}`:", ""]
        lines += ["| file | default | values | effect |", "| --- | --- | --- | --- |"]
        for knob in directory.knobs:
            cells = (f"`{knob.name}`", knob.default, knob.range, f"{knob.text}.")
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def with_tables(document: str, made: str) -> str:
    """Return a document with tables between its markers; PagehaulError where these are missing."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PagehaulError(f"the markers `{BEGIN}` and `{END}` are missing: put them back")
    return f"{before}{begin}\n{made}{end}{after}"


def written(name: str) -> str:
    """Return a document of DOCUMENTS with the tables of today's description."""
    made = tables(each for each in read() if each.document == name)
    return with_tables(DOCUMENTS[name].read_text(encoding="utf-8"), made)


def main() -> None:
    """Write the tables into the documents."""
    for name, path in DOCUMENTS.items():
        path.write_text(written(name), encoding="utf-8")


if __name__ == "__main__":
    main()
