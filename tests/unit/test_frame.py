# SPDX-License-Identifier: GPL-2.0-only
"""What is around the code: documents name what there is, and configurations fit the code."""

import argparse
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehaul.cli import verbs
from pagehaul.cli.version import VERSION
from pagehaul.paths import REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))

# Files that are read as they are, or have a licence of their own kind, or have no comments.
NO_LICENCE_LINE = (
    ".diff",
    ".txt",
    "LICENSE",
    "changelog",
    "format",
    "sysfs-kernel-mm-migrate_copy",
)


def tracked() -> list[Path]:
    """Return the files of the repository that have content; none where it is not git's."""
    done = subprocess.run(
        ["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=False
    )
    paths = [REPO / name for name in done.stdout.splitlines()]
    return [path for path in paths if path.is_file() and path.stat().st_size]


def documents() -> list[Path]:
    """Return what tells people which commands to type."""
    places = ("*.md", "docs/*.md", "sim/*.md", ".github/*.md", ".github/*/*.yml")
    return [path for place in places for path in sorted(REPO.glob(place))]


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of our commands in a document, but for those that a guest gets."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for found in re.findall(
        r"^ *(?:\$ )?(?:sudo )?(\./pagehaul .*)$|`(\./pagehaul [^`]+)`", text, re.M
    ):
        ours = re.split(r" -- |[|>;]", "".join(found))[0]
        yield shlex.split(ours, comments=True)


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(REPO)))
def test_documents_name_verbs_and_options_that_exist(path: Path) -> None:
    parsers: dict[str, argparse.ArgumentParser] = {}
    for _, name, *words in commands(path):
        if name in ("--version", "VERB"):
            continue
        assert name in verbs.COMMANDS
        parser = parsers.setdefault(name, verbs.parser_of(name)[1])
        known = {option for action in parser._actions for option in action.option_strings}
        options = {word.strip("[]") for word in words}
        assert {each for each in options if each.startswith("-")} <= known, f"{name} {words}"


def test_some_commands_are_found() -> None:
    assert len(list(commands(REPO / "README.md"))) >= 8
    assert len(list(commands(REPO / "CONTRIBUTING.md"))) >= 15


def test_the_changelog_begins_with_this_version() -> None:
    text = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\S+)\] - (?:unreleased|\d{4}-\d\d-\d\d)$", text, re.M)
    assert versions[0] == VERSION
    assert len(versions) == text.count("\n## ")


def test_contributing_names_paths_that_exist() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:py|md|toml))`", text))
    named |= set(re.findall(r"\]\((?!http)([^)#]+)", text))
    # Capitals stand for a name, and .venv/ is made.
    named = {each for each in named if not re.search(r"[A-Z]{4}", each)} - {".venv/"}
    assert len(named) > 8
    for name in named:
        tops = (REPO, REPO / "src/pagehaul", REPO / "kernel")
        assert any((top / name).exists() for top in tops), name


def test_hooks_run_tools_that_the_environment_has() -> None:
    text = (REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    tools = set(re.findall(r"^ +entry: \.venv/bin/python -m (\w+)", text, re.M))
    extra = PROJECT["project"]["optional-dependencies"]["dev"]
    assert tools == {"ruff", "mypy"} <= {re.split(r"\W", each)[0] for each in extra}
    assert len(re.findall(r"^ +entry:", text, re.M)) == 3


def test_the_workflow_runs_what_ci_is() -> None:
    text = (REPO / ".github/workflows/test.yml").read_text(encoding="utf-8")
    assert re.search(r"^ +run: \.ci/run$", text, re.M)
    assert os.access(REPO / ".ci/run", os.X_OK)


def test_clang_format_knows_our_loops() -> None:
    text = (REPO / ".clang-format").read_text(encoding="utf-8")
    known = set(re.findall(r"^  - (\w+)$", text, re.M))
    used = set()
    for place in ("kernel", "bench", "sim", "tests/guest"):
        for path in (REPO / place).rglob("*.[ch]"):
            source = path.read_text(encoding="utf-8")
            used |= set(re.findall(r"^\t+(\w*for_each_\w+)\(", source, re.M))
    assert known == used


def test_each_file_names_its_licence() -> None:
    for path in tracked():
        if not path.name.endswith(NO_LICENCE_LINE):
            # A picture has it in a comment.
            head = path.read_bytes()[:400].decode("utf-8", "replace")
            assert "SPDX-License-Identifier: GPL-2.0" in head, path
