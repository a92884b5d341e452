# SPDX-License-Identifier: GPL-2.0-only
"""Documents: links and pictures resolve, lines keep their width, and language is plain."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehaul.cli import verbs
from pagehaul.paths import REPO

WIDTH = 100

# Documents that people read from end to end.
DOCUMENTS = sorted(
    path
    for place in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "sim/*.md")
    for path in REPO.glob(place)
)
LINKED = [*DOCUMENTS, REPO / "CHANGELOG.md"]

# Words that hide who acts, or are no English of today.
WORDS = re.compile(r"\b(anew|meanwhile|he|him|his)\b", re.I)

# A sentence does not begin with a clause that stands for its subject.
SUBJECT = re.compile(r"(?:\A|\n\n|[.:;-] )((?:Who|What|Whoever|Whatever|That which) [^.?:]*[.:])")

# What the README must not have: the guide has it.
MOST_WORDS_OF_README = 850


def name(path: Path) -> str:
    return str(path.relative_to(REPO))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without code."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    found = set()
    for _, line in prose(path):
        if heading := re.match(r"#+ (.*)", line):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(text.replace(" ", "-"))
    return found


def links(path: Path) -> Iterator[str]:
    """Yield the relative links of a document, those of its pictures included."""
    text = "\n".join(line for _, line in prose(path))
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("path", LINKED, ids=name)
def test_links_resolve(path: Path) -> None:
    for target in links(path):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_lines_keep_their_width(path: Path) -> None:
    wide = [n for n, line in prose(path) if len(line) > WIDTH and not line.startswith(("|", "#"))]
    assert not wide, f"lines {wide}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_language_is_plain(path: Path) -> None:
    # Headings, tables, leads in bold and names in code are no sentences.
    lines = [line for _, line in prose(path) if not line.startswith("#")]
    text = re.sub(r"`[^`\n]*`|\*\*[^*]*\*\*", "", "\n".join(lines))
    assert not WORDS.findall(text)
    sentences = re.sub(r"^\|.*", "", text, flags=re.M)
    assert not SUBJECT.findall(sentences)


SPOKEN = ("bases", "bench", "configs", "debian", "docs/man", "kernel", "machines", "series", "sim")


@pytest.mark.parametrize("place", [*SPOKEN, "src", "tests/guest", "tests/install", "CHANGELOG.md"])
def test_code_speaks_plainly(place: str) -> None:
    """Comments, docstrings and messages; another task is no "he" in them, either."""
    texts = {
        name(path): path.read_bytes().decode("utf-8", "replace")
        for path in [REPO / place, *sorted((REPO / place).rglob("*"))]
        if path.is_file() and path.suffix not in {".pyc", ".o"}
    }
    assert texts
    found = [f"{path}: {word}" for path, text in texts.items() for word in WORDS.findall(text)]
    assert found == []


def test_every_document_is_linked() -> None:
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path in LINKED
        for target in links(path)
    }
    orphans = {name(path) for path in DOCUMENTS if path not in linked}
    assert orphans <= {"README.md"}


def test_the_readme_is_short_and_has_no_knobs() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS_OF_README
    assert "/sys/kernel/mm/migrate_copy" not in text


@pytest.mark.parametrize("path", sorted((REPO / "docs/pictures").glob("*.svg")), ids=name)
def test_pictures_describe_themselves_and_have_both_colour_schemes(path: Path) -> None:
    root = ET.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") and root.findtext(f"{space}desc")
    assert "prefers-color-scheme: dark" in (root.findtext(f"{space}style") or "")


def choices(verb: str, option: str) -> set[str]:
    """Return what an option of a verb can be."""
    actions = verbs.parser_of(verb)[1]._actions
    return {
        str(each)
        for action in actions
        if option in action.option_strings
        for each in action.choices or ()
    }


@pytest.mark.parametrize(
    ("document", "verb", "option"),
    [
        ("guide", "test", "--suite"),
        ("guide", "build", "--variant"),
        ("method", "bench", "--experiment"),
        ("method", "bench", "--model"),
    ],
)
def test_tables_have_every_choice(document: str, verb: str, option: str) -> None:
    text = (REPO / f"docs/{document}.md").read_text(encoding="utf-8")
    firsts = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", text, re.M)
    named = {each for cell in firsts for each in re.findall(r"`([^`]+)`", cell)}
    assert choices(verb, option)
    assert choices(verb, option) <= named


def test_the_guide_describes_every_verb() -> None:
    headings = "\n".join(
        line for _, line in prose(REPO / "docs/guide.md") if line.startswith("## ")
    )
    assert set(verbs.COMMANDS) <= set(re.findall(r"`(\w+)`", headings))


def figures(text: str) -> set[str]:
    """Return the speeds that a text names: 23.4x."""
    return set(re.findall(r"\b(\d+\.\d+)(?=x\b| times\b)", text))


def test_the_readme_names_only_speeds_that_the_results_have() -> None:
    pages = sorted((REPO / "docs/results").glob("*.md"))
    results = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    measured = [float(each) for each in re.findall(r"\b(\d+\.\d+)", results)]
    for figure in figures((REPO / "README.md").read_text(encoding="utf-8")):
        digits = len(figure.partition(".")[2])
        assert any(f"{each + 1e-9:.{digits}f}" == figure for each in measured), figure
