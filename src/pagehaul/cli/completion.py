# SPDX-License-Identifier: GPL-2.0-only
"""The `completion` verb: what makes a shell complete the command line."""

import argparse
from pathlib import Path

import shtab

# Shell -> where its completions of a user are.
SHELLS = {
    "bash": "~/.local/share/bash-completion/completions/pagehaul",
    "zsh": "_pagehaul in a directory of $fpath",
    "fish": "~/.config/fish/completions/pagehaul.fish",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = [f"  {shell:5} {where}" for shell, where in SHELLS.items()]
    parser.epilog = "\n".join(("where to write it to:", *lines))
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help=", ".join(SHELLS))


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion of a command line for one of SHELLS."""
    _complete_paths(parser)
    return shtab.complete(parser, shell=shell)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Let each argument that is a path be completed as one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_paths(sub)
        elif action.type is Path or "DIR" in str(action.metavar):
            kind = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
            action.complete = kind  # type: ignore[attr-defined]


def run(args: argparse.Namespace) -> int:
    """Print the completion."""
    print(script(args.shell, args.whole()))
    return 0
