# SPDX-License-Identifier: GPL-2.0-only
"""The manual page: made from the parser, complete, and the same as the one in docs/."""

import argparse
import re

import pytest

from pagehaul import paths
from pagehaul.cli import main, manual, roff, verbs

COMMITTED = paths.REPO / "docs/man/pagehaul.1"


@pytest.mark.parametrize("verb", [None, *manual.PAGES])
def test_the_committed_page_is_what_the_parser_says(
    verb: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["manual", *([verb] if verb else [])]
    path = COMMITTED.with_name("-".join(("pagehaul", *words[1:])) + ".1")
    assert main.main(words) == 0
    made = capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == made, (
        f"run: ./pagehaul {' '.join(words)} > docs/man/{path.name}"
    )


def test_the_page_of_move_has_all_that_its_help_has() -> None:
    text = COMMITTED.with_name("pagehaul-move.1").read_text(encoding="utf-8").replace("\\-", "-")
    parser = verbs.parser_of("move")[1]
    for action in parser._actions:
        assert action.dest == "help" or str(action.help) in text
    assert text.startswith('.\\" SPDX') and '.TH PAGEHAUL-MOVE 1 ""' in text
    assert "143  after SIGTERM" in text


@pytest.mark.parametrize("name", verbs.COMMANDS)
def test_the_page_has_every_verb_and_option(name: str) -> None:
    section = re.search(
        rf"^\.SS {name}\n(.*?)(?=^\.S[HS] )", COMMITTED.read_text(encoding="utf-8"), re.M | re.S
    )
    assert section is not None
    tags = section[1].replace("\\-", "-")
    for action in verbs.parser_of(name)[1]._actions:
        for option in action.option_strings:
            assert (f"\\fB{option}\\fR" in tags) == (action.dest != "help"), option
        if not action.option_strings:
            assert f"\\fI{action.metavar}\\fR" in tags


@pytest.mark.parametrize("name", verbs.COMMANDS)
def test_every_argument_has_a_help(name: str) -> None:
    for action in verbs.parser_of(name)[1]._actions:
        assert action.help, f"{name} {action.dest}"


def page(add: argparse.ArgumentParser) -> str:
    """Return the page of a tool whose only verb has the arguments of a parser."""
    parser = argparse.ArgumentParser(prog="tool", description="Does it.")
    subs = parser.add_subparsers(prog="tool", metavar="VERB")
    subs.add_parser("do", parents=[add], description="Do it.", epilog=add.epilog)
    return roff.page(parser, "1-2")


def test_how_arguments_are_written() -> None:
    add = argparse.ArgumentParser(add_help=False, epilog="`tool do` is\n.all \\ 'quoted'")
    add.add_argument("-q", "--quick", action="store_true", help="100%% faster")
    add.add_argument("--kind", choices=("a", "b"), default="a", help="which (default: %(default)s)")
    add.add_argument("--named", choices=("a", "b"), metavar="K", help="a or b")
    either = add.add_mutually_exclusive_group(required=True)
    either.add_argument("--out-dir", metavar="DIR", help="there")
    either.add_argument("--check", nargs="?", metavar="N", help="only look")
    add.add_argument("words", nargs="+", metavar="W", help="them")
    lines = page(add).splitlines()
    assert '.TH TOOL 1 "" "tool 1\\-2" "User Commands"' in lines
    assert "tool \\- does it" in lines
    start = lines.index(".SS do")
    assert lines[start + 1 : start + 3] == [
        ".B tool do",
        "[\\fIOPTION\\fR ...] "
        "(\\fB\\-\\-out\\-dir\\fR \\fIDIR\\fR | \\fB\\-\\-check\\fR [\\fIN\\fR]) "
        "\\fIW\\fR [\\fIW\\fR ...]",
    ]
    entries = "\n".join(lines[start:])
    assert "\n\\fB\\-q\\fR, \\fB\\-\\-quick\\fR\n100% faster\n" in entries
    assert "\n\\fB\\-\\-kind\\fR \\fIKIND\\fR\nwhich (default: a); one of a, b\n" in entries
    assert "\n\\fB\\-\\-named\\fR \\fIK\\fR\na or b\n" in entries
    assert "\n.PP\n\\fBtool do\\fR is\n\\&.all \\e 'quoted'\n.SH EXIT STATUS" in entries
