# SPDX-License-Identifier: GPL-2.0-only
"""The parser of what comes after a verb: its errors are JSON where the results are."""

import argparse
import json
from collections.abc import Sequence
from typing import Any, NoReturn

from pagehaul.errors import UsageError

_JSON = "--json"


def print_error(status: int, text: str) -> None:
    """Print, as JSON, that a verb did nothing because of an error."""
    print(json.dumps({"complete": False, "status": status, "error": text}))


class VerbParser(argparse.ArgumentParser):
    """An ArgumentParser whose error() prints JSON, too, where the command line asks for JSON.

    It asks by --json, for verbs that print their result as JSON. For other verbs --json is no
    option, or names a file.
    """

    _words: Sequence[str] = ()

    # argparse has overloads by type of namespace here, which say nothing to callers of ours.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """See ArgumentParser; remember the words for error()."""
        self._words = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print `message`, and exit with the status of a wrong command line."""
        if self._wants_json():
            print_error(UsageError.status, message)
        super().error(message)

    def _wants_json(self) -> bool:
        flag = any(_JSON in each.option_strings and each.nargs == 0 for each in self._actions)
        options = self._words[: self._words.index("--")] if "--" in self._words else self._words
        # As argparse does, take what an option begins with for the option.
        return flag and any(len(word) > 2 and _JSON.startswith(word) for word in options)
