# SPDX-License-Identifier: GPL-2.0-only
"""The verbs: which there are, which work here, and the parsers of their command lines."""

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from pagehaul import paths
from pagehaul.cli.parser import VerbParser
from pagehaul.cli.version import VERSION
from pagehaul.errors import PagehaulError

PROG = "pagehaul"


@dataclass(frozen=True)
class Command:
    """A verb's line in the list of verbs.

    alone: the verb reads nothing of the repository, so that an installed package has it, too.
    """

    text: str
    alone: bool = False


# In the order of the list. A module is imported only when its verb is used.
COMMANDS = {
    "source": Command("get the kernel source, pristine, into the cache"),
    "tree": Command("lay Pagehaul's files and patches over a pristine kernel"),
    "build": Command("build a kernel, unmodified or with Pagehaul, or packages of it"),
    "series": Command("write the patches as mails, or build and boot each of them"),
    "run": Command("boot a kernel and run a command in it"),
    "shell": Command("boot a kernel with a shell on this terminal"),
    "bench": Command("measure Pagehaul beside the unmodified kernel"),
    "test": Command("run everything that the project checks"),
    "torture": Command("move memory in every way while as much as can goes wrong"),
    "report": Command("show benchmark results as tables and plots"),
    "move": Command("move pages of processes between nodes of the running kernel", alone=True),
    "clean": Command("remove what is in the cache", alone=True),
    "completion": Command("print what makes a shell complete this command", alone=True),
    "manual": Command("print the manual page", alone=True),
}


def module_of(name: str) -> str:
    """Return the name of a verb's module."""
    return f"pagehaul.cli.{name}"


class Verb(Protocol):
    """What the module of a verb offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's options to `parser`."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the process's exit status."""


class _Version(argparse.Action):
    """Print the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {VERSION}")
        parser.exit()


def here() -> list[str]:
    """Return the names of the verbs that work here: without a clone, those that need none."""
    return [name for name, command in COMMANDS.items() if command.alone or paths.in_clone()]


def load(name: str) -> Verb:
    """Import a verb's module; PagehaulError where the verb needs a clone and there is none."""
    if name not in here():
        raise PagehaulError(
            f"`{name}` needs files of the repository: run ./pagehaul {name} in a clone of it"
        )
    return cast(Verb, importlib.import_module(module_of(name)))


def usage() -> argparse.ArgumentParser:
    """Return a parser of what comes before a verb, whose help lists the verbs that work here."""
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:{width}} {COMMANDS[name].text}" for name in here()]
    epilog = ["verbs:", *lines, "", f"`{PROG} VERB --help` describes a verb's options."]
    if elsewhere := [name for name in COMMANDS if name not in here()]:
        epilog.append(f"A clone of the repository also has: {', '.join(elsewhere)}.")
    parser = argparse.ArgumentParser(
        prog=PROG,
        usage=f"{PROG} [-h] [--version] VERB ...",
        description="Moves pages between NUMA nodes faster, and measures it.",
        epilog="\n".join(epilog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def name_of(words: Sequence[str]) -> str:
    """Return the verb that `words` begin with; exits with 2 where they begin with none."""
    parser = usage()
    parser.add_argument("verb", choices=COMMANDS, metavar="VERB", help=argparse.SUPPRESS)
    return str(parser.parse_args(words[:1]).verb)


def describe(name: str) -> str:
    """Return what a verb does, as a sentence."""
    text = COMMANDS[name].text
    return f"{text[0].upper()}{text[1:]}."


def parser_of(name: str) -> tuple[Verb, argparse.ArgumentParser]:
    """Return a verb and the parser of what comes after it; PagehaulError as load()."""
    verb = load(name)
    parser = VerbParser(prog=f"{PROG} {name}", description=describe(name))
    # For the verbs that describe the command line: they cannot import what imports them.
    parser.set_defaults(whole=whole)
    verb.add_arguments(parser)
    return verb, parser


def whole(alone: bool = False) -> argparse.ArgumentParser:
    """Return a parser of the whole command line, with each verb that works here.

    With `alone`, it has only the verbs that work without a clone, as where the package is.

    It imports all of them, and is for what describes the command line.
    """
    parser = usage()
    verbs = parser.add_subparsers(prog=PROG, metavar="VERB", required=True)
    for name in here():
        if alone and not COMMANDS[name].alone:
            continue
        sub = verbs.add_parser(name, help=COMMANDS[name].text, description=describe(name))
        load(name).add_arguments(sub)
    return parser
