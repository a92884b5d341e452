# SPDX-License-Identifier: GPL-2.0-only
"""Completion: each shell's script names every verb and option, and bash's gives them."""

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from pagehaul import paths
from pagehaul.cli import completion, main, verbs
from pagehaul.kernel import bases


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    return {name: verbs.parser_of(name)[1] for name in verbs.COMMANDS}


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Return the names of a parser's options."""
    return {name for action in parser._actions for name in action.option_strings}


def bash(script: Path, lines: list[list[str]], cwd: Path) -> list[list[str]]:
    """Return what bash offers for the last word of each line, which may be empty."""
    calls = [
        f"COMP_WORDS=({' '.join(repr(word) for word in line)})\n"
        f"COMP_CWORD={len(line) - 1}\n"
        '"$function"\n'
        'echo "${COMPREPLY[*]}"\n'
        for line in lines
    ]
    # The function is what bash itself would call for the command.
    start = (
        f'source {script}\nread -ra words < <(complete -p pagehaul)\nfunction="${{words[-2]}}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", start + "".join(calls)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the completion for bash."""
    path = tmp_path_factory.mktemp("completion") / "pagehaul.bash"
    path.write_text(completion.script("bash", verbs.whole()), encoding="utf-8")
    return path


def test_bash_offers_every_verb_and_option(script: Path, tmp_path: Path) -> None:
    found = parsers()
    offered = bash(
        script,
        [["pagehaul", ""], ["pagehaul", "-"], *(["pagehaul", name, "-"] for name in found)],
        tmp_path,
    )
    assert offered[0] == list(verbs.COMMANDS)
    assert set(offered[1]) == options(verbs.usage()) >= {"-h", "--help", "--version"}
    for (name, parser), each in zip(found.items(), offered[2:], strict=True):
        assert set(each) == options(parser), name


def test_bash_offers_values_and_paths(script: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").touch()
    (tmp_path / "results").mkdir()
    base, shell, report, out = bash(
        script,
        [
            ["pagehaul", "build", "--base", ""],
            ["pagehaul", "completion", ""],
            ["pagehaul", "report", "res"],
            ["pagehaul", "series", "--out", "res"],
        ],
        tmp_path,
    )
    assert base == list(bases.names())
    assert shell == ["bash", "zsh", "fish"]
    assert sorted(report) == ["result.json", "results"]
    assert out == ["results"]


def test_zsh_names_every_verb_and_option() -> None:
    text = completion.script("zsh", verbs.whole())
    assert text.startswith("#compdef pagehaul\n")
    for name, parser in parsers().items():
        assert re.search(rf"^    {name}:'", text, re.M), name
        block = re.search(rf"^_shtab_pagehaul_{name}_options=\((.*?)^\)", text, re.M | re.S)
        assert block is not None
        named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*(?=[,}\[])", block[1]))
        assert named == options(parser), name


def test_fish_names_every_verb_and_option() -> None:
    text = completion.script("fish", verbs.whole())
    for name, parser in parsers().items():
        assert re.search(rf" -a {name} ", text), name
        lines = re.findall(rf"-n '_shtab_pagehaul_using {name}' (.*)", text)
        named = {f"--{each}" for line in lines for each in re.findall(r"-l (\S+)", line)}
        named |= {f"-{each}" for line in lines for each in re.findall(r"-s (\w)\b", line)}
        assert named == options(parser), name


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_package_has_what_the_parser_says(shell: str) -> None:
    made = completion.script(shell, verbs.whole(alone=True))
    assert completion.stored(shell) == made, (
        f"run: ./pagehaul completion {shell} --installed > src/pagehaul/data/completion.{shell}"
    )


def test_an_installed_tool_completes_what_it_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "REPO", tmp_path)
    assert main.main(["completion", "bash"]) == 0
    path = tmp_path / "pagehaul.bash"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    alone = [name for name, command in verbs.COMMANDS.items() if command.alone]
    assert bash(path, [["pagehaul", ""]], tmp_path) == [alone]
