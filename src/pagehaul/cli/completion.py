# SPDX-License-Identifier: GPL-2.0-only
"""The `completion` verb: what makes a shell complete the command line.

shtab makes it from the parser. An installed package prints what was made in a clone: the shtab of
Debian does not know fish, and nobody needs it for anything else.
"""

import argparse
from importlib import resources
from pathlib import Path

from pagehaul import data, paths

# Shell -> where its completions of a user are.
SHELLS = {
    "bash": "~/.local/share/bash-completion/completions/pagehaul",
    "zsh": "_pagehaul in a directory of $fpath",
    "fish": "~/.config/fish/completions/pagehaul.fish",
}

_LICENCE = "# SPDX-License-Identifier: GPL-2.0-only"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = [f"  {shell:5} {where}" for shell, where in SHELLS.items()]
    parser.epilog = "\n".join(("where to write it to:", *lines))
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help=", ".join(SHELLS))
    parser.add_argument(
        "--installed",
        action="store_true",
        help="only verbs that need no clone of the repository, as an installed package has them",
    )


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion of a command line for one of SHELLS; needs shtab."""
    import shtab

    _complete_paths(parser, shtab.FILE, shtab.DIRECTORY)
    # zsh wants its own mark in the first line.
    first, rest = shtab.complete(parser, shell=shell).split("\n", 1)
    return f"{first}\n{_LICENCE}\n{rest.rstrip()}\n"


def stored(shell: str) -> str:
    """Return the completion that comes with the package."""
    return (resources.files(data) / f"completion.{shell}").read_text(encoding="utf-8")


def _complete_paths(parser: argparse.ArgumentParser, file: object, directory: object) -> None:
    """Let each argument that is a path be completed as one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_paths(sub, file, directory)
        elif action.type is Path or "DIR" in str(action.metavar):
            kind = directory if action.metavar == "DIR" else file
            action.complete = kind  # type: ignore[attr-defined]


def run(args: argparse.Namespace) -> int:
    """Print the completion."""
    if paths.in_clone():
        text = script(args.shell, args.whole(alone=args.installed))
    else:
        text = stored(args.shell)
    print(text, end="")
    return 0
