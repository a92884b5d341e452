# SPDX-License-Identifier: GPL-2.0-only
"""The command line: `pagehaul VERB ...`."""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from rich.markup import escape

from pagehaul import ui
from pagehaul.errors import PagehaulError

# Verb -> the module that implements it, and its line in the list of verbs. A module is imported
# only when its verb is used.
COMMANDS = {
    "source": ("pagehaul.source", "get the kernel source, pristine, into the cache"),
    "tree": ("pagehaul.tree", "lay Pagehaul's files and patches over a pristine kernel"),
    "build": ("pagehaul.build", "build a kernel: vanilla, pagehaul, torture or debug"),
    "series": ("pagehaul.series_cli", "write the patches as mails, or build and boot each of them"),
    "run": ("pagehaul.vm_cli", "boot a kernel and run a command in it"),
    "shell": ("pagehaul.shell_cli", "boot a kernel with a shell on this terminal"),
    "bench": ("pagehaul.bench", "measure Pagehaul beside the unmodified kernel"),
    "test": ("pagehaul.suites", "run everything that the project checks"),
    "torture": ("pagehaul.torture", "move memory in every way while as much as can goes wrong"),
    "report": ("pagehaul.report", "show benchmark results as tables and plots"),
    "move": ("pagehaul.move", "move a process's pages between nodes of the running kernel"),
}


class _Verb(Protocol):
    """What the module of a verb offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's options to `parser`."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the process's exit status."""


def _usage() -> argparse.ArgumentParser:
    verbs = "\n".join(f"  {verb:8} {text}" for verb, (_, text) in COMMANDS.items())
    return argparse.ArgumentParser(
        prog="pagehaul",
        usage="pagehaul [-h] VERB ...",
        description="Moves pages between NUMA nodes faster, and measures it.",
        epilog=f"verbs:\n{verbs}\n\n`pagehaul VERB --help` describes a verb's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


class _Terminated(BaseException):
    """SIGTERM, as KeyboardInterrupt is SIGINT."""


def _terminate(*_: object) -> None:
    raise _Terminated


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (the process's own when None) and return its exit status.

    0: done; 1: an error, printed as one line; 2: a wrong command line; 130: interrupted; 143:
    terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    usage = _usage()
    usage.add_argument("verb", choices=COMMANDS, metavar="VERB", help=argparse.SUPPRESS)
    if not words:
        usage.print_help()
        return 2
    name = usage.parse_args(words[:1]).verb
    module, text = COMMANDS[name]
    # What it has started, guests above all, is to end with it.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        verb = cast(_Verb, importlib.import_module(module))
        parser = argparse.ArgumentParser(
            prog=f"pagehaul {name}", description=f"{text[0].upper()}{text[1:]}."
        )
        verb.add_arguments(parser)
        return verb.run(parser.parse_args(words[1:]))
    except PagehaulError as error:
        ui.console.print(f"[bold red]pagehaul: error:[/] {escape(str(error))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        ui.console.print("pagehaul: interrupted")
        return 130
    except _Terminated:
        ui.console.print("pagehaul: terminated")
        return 143
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 1
