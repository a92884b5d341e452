# SPDX-License-Identifier: GPL-2.0-only
"""The command line: `pagehaul VERB ...`."""

import signal
import sys
from collections.abc import Sequence

from pagehaul.cli import verbs
from pagehaul.errors import PagehaulError


class _Terminated(BaseException):
    """SIGTERM, as KeyboardInterrupt is SIGINT."""


def _terminate_once(*_: object) -> None:
    # `timeout` and service managers send several: a second one would cut the ending short. Not
    # SIG_IGN, which programs that are started would have as well.
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise _Terminated


def _say(what: str, text: str = "") -> None:
    """Print a line on stderr, with `what` in red where text follows."""
    # Here, because most of what `move` takes to start would be this import.
    from rich.markup import escape

    from pagehaul import ui

    begin = f"[bold red]pagehaul: {what}[/]" if text else f"pagehaul: {what}"
    ui.console.print(f"{begin}{escape(text)}", soft_wrap=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (the process's own when None) and return its exit status.

    0: done; 1: an error, printed as one line; 2: a wrong command line; 4: no such process; 130:
    interrupted; 143: terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        verbs.usage().print_help()
        return 2
    try:
        name = verbs.name_of(words)
        # SIGTERM must end all that the verb has started, guests above all.
        signal.signal(signal.SIGTERM, _terminate_once)
        verb, parser = verbs.parser_of(name)
        return verb.run(parser.parse_args(words[1:]))
    except PagehaulError as error:
        _say("error: ", str(error))
        return error.status
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except _Terminated:
        _say("terminated")
        return 143
    except BrokenPipeError:
        # The reader of our output has seen enough.
        sys.stderr.close()
        return 1
