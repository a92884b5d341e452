# SPDX-License-Identifier: GPL-2.0-only
"""pagehaul(1), made from the parser of the command line.

The same command line gives the same page with every version of Python, and without a date, so that
docs/man/pagehaul.1 can be compared with it.
"""

import argparse
import re
from collections.abc import Iterable

_STATUSES = {
    "0": "All went well. `run` ends with the status of the command in the guest instead.",
    "1": "An error: a line says what it is and what to do. Or something failed that the verb "
    "tests or measures.",
    "2": "The command line was wrong.",
    "3": "`move`: pages stayed that were asked for.",
    "4": "`move`: a process does not exist, or has ended.",
    "130": "Interrupted by Ctrl-C.",
    "143": "Ended by SIGTERM, with all that it had started.",
}

_ENVIRONMENT = {
    "PAGEHAUL_CACHE": "Directory of kernel sources, trees, results and logs, which may be deleted "
    "at any time.",
    "XDG_CACHE_HOME": "Where `PAGEHAUL_CACHE` is not set, that directory is `pagehaul` in this "
    "one, or else in ~/.cache.",
}

_SEE_ALSO = ("migratepages(8)", "move_pages(2)", "numa(7)")


def page(parser: argparse.ArgumentParser, version: str) -> str:
    """Return the manual page, for man(7), of a parser whose only argument is a verb."""
    subs = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    options = [each for each in parser._actions if each is not subs]
    lines = [
        '.\\" SPDX-License-Identifier: GPL-2.0-only',
        f'.\\" Made by `{parser.prog} manual`: edit what its parser says instead.',
        f'.TH {parser.prog.upper()} 1 "" "{parser.prog} {_roff(version)}" "User Commands"',
        ".SH NAME",
        f"{parser.prog} \\- {_name_line(parser)}",
        ".SH SYNOPSIS",
        f".B {parser.prog}",
        _synopsis(options),
        "\\fIVERB\\fR ...",
        ".SH DESCRIPTION",
        _text(str(parser.description)),
        _text("A verb says what to do. Each has options of its own; `--help` lists them."),
        *_entries(options),
        ".SH VERBS",
    ]
    for name, sub in subs.choices.items():
        lines += _verb(name, sub)
    lines += [".SH EXIT STATUS", *_definitions(_STATUSES)]
    lines += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT)]
    lines += [".SH SEE ALSO", ",\n".join(_references())]
    return "\n".join(lines) + "\n"


def verb_page(parser: argparse.ArgumentParser, name: str, version: str) -> str:
    """Return the manual page of one verb alone, whose help tells its exit status."""
    subs = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    sub = subs.choices[name]
    actions = [each for each in sub._actions if each.dest != "help"]
    title = f"{parser.prog}-{name}"
    lines = [
        '.\\" SPDX-License-Identifier: GPL-2.0-only',
        f'.\\" Made by `{parser.prog} manual {name}`: edit what its parser says instead.',
        f'.TH {_roff(title.upper())} 1 "" "{parser.prog} {_roff(version)}" "User Commands"',
        ".SH NAME",
        f"{_roff(title)} \\- {_name_line(sub)}",
        ".SH SYNOPSIS",
        f".B {_roff(sub.prog)}",
        _synopsis(actions, sub._mutually_exclusive_groups),
        ".SH DESCRIPTION",
        _text(str(sub.description)),
        ".SH OPTIONS",
        *_entries(actions),
    ]
    if sub.epilog:
        lines += [".SH NOTES", _text(sub.epilog)]
    lines += [".SH SEE ALSO", ",\n".join((f".BR {parser.prog} (1)", *_references()))]
    return "\n".join(lines) + "\n"


def _references() -> list[str]:
    pages = (re.fullmatch(r"(\w+)\((\d)\)", each) for each in _SEE_ALSO)
    return [f".BR {each[1]} ({each[2]})" for each in pages if each]


def _name_line(parser: argparse.ArgumentParser) -> str:
    """Return what whatis(1) says: the description, as a phrase."""
    text = str(parser.description).rstrip(".")
    return _text(f"{text[0].lower()}{text[1:]}")


def _verb(name: str, sub: argparse.ArgumentParser) -> list[str]:
    """Return the section of a verb."""
    actions = [each for each in sub._actions if each.dest != "help"]
    lines = [f".SS {name}", f".B {_roff(sub.prog)}"]
    if words := _synopsis(actions, sub._mutually_exclusive_groups):
        lines.append(words)
    lines += [".PP", _text(str(sub.description)), *_entries(actions)]
    if sub.epilog:
        lines += [".PP", _text(sub.epilog)]
    return lines


def _synopsis(
    actions: Iterable[argparse.Action],
    groups: Iterable[argparse._MutuallyExclusiveGroup] = (),
) -> str:
    """Return what may follow the name: that there are options, those that must be, arguments."""
    words = []
    if any(each.option_strings and not each.required for each in actions):
        words.append("[\\fIOPTION\\fR ...]")
    for group in groups:
        if group.required:
            words.append(f"({' | '.join(_tag(each) for each in group._group_actions)})")
    words += [_tag(each) for each in actions if not each.option_strings]
    return " ".join(words)


def _entries(actions: Iterable[argparse.Action]) -> list[str]:
    """Return a list of arguments, each with what its help says."""
    lines = []
    for action in actions:
        lines += [".TP", _tag(action), _text(_help(action))]
    return lines


def _tag(action: argparse.Action) -> str:
    """Return an argument as it is given: `--cpus N [N ...]`."""
    value = f"\\fI{_roff(_value_name(action))}\\fR"
    if action.nargs == 0:
        value = ""
    elif action.nargs == "?":
        value = f"[{value}]"
    elif action.nargs == "*":
        value = f"[{value} ...]"
    elif action.nargs == "+":
        value = f"{value} [{value} ...]"
    names = ", ".join(f"\\fB{_roff(each)}\\fR" for each in action.option_strings)
    return f"{names} {value}".strip()


def _value_name(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _help(action: argparse.Action) -> str:
    """Return what an argument is for, and its choices where neither name nor help tell them."""
    text = (action.help or "") % vars(action)
    if action.choices is None or action.metavar is not None:
        return text
    return f"{text}; one of {', '.join(map(str, action.choices))}"


def _definitions(entries: dict[str, str]) -> list[str]:
    lines = []
    for term, text in entries.items():
        lines += [".TP", f".B {_roff(term)}", _text(text)]
    return lines


def _text(text: str) -> str:
    """Return text for the page: what is between backticks in bold, one line each as it was."""
    bold = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _roff(text))
    # A line that begins so would be a request to the formatter.
    return re.sub(r"^(?=[.'])", r"\\&", bold, flags=re.M).rstrip("\n")


def _roff(text: str) -> str:
    """Return text in which a backslash is one, and a hyphen is what the user types."""
    return text.replace("\\", "\\e").replace("-", "\\-")
