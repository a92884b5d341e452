# SPDX-License-Identifier: GPL-2.0-only
"""Typed access to objects of a JSON file, with errors that name the field."""

import math
from collections.abc import Sequence
from typing import Any

from pagehaul.errors import PagehaulError


class Fields:
    """One JSON object; `name` is what errors call it."""

    def __init__(self, entry: object, name: str) -> None:
        if not isinstance(entry, dict):
            raise PagehaulError(f"{name}: must be an object")
        self._entry = entry
        self.name = name

    def get(self, key: str) -> object:
        """Return a field as it is."""
        if key not in self._entry:
            raise PagehaulError(f"{self.name}: {key} is missing")
        return self._entry[key]

    def integer_of(self, value: object, key: str) -> int:
        """Return a whole number from 0 on."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not a whole number from 0 on")
        return value

    def number_of(self, value: object, key: str) -> float:
        """Return a finite number."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not a number")
        if not math.isfinite(value):
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not finite")
        return float(value)

    def integer(self, key: str, *, optional: bool = False) -> int:
        """Return a whole number; 0 for an optional one that is missing."""
        if optional and key not in self._entry:
            return 0
        return self.integer_of(self.get(key), key)

    def number(self, key: str) -> float:
        """Return a finite number."""
        return self.number_of(self.get(key), key)

    def maybe_number(self, key: str, *, optional: bool = False) -> float | None:
        """Return a number or None; an optional one may be missing."""
        value = self._entry.get(key) if optional else self.get(key)
        return None if value is None else self.number_of(value, key)

    def string(self, key: str) -> str:
        """Return a string that is not empty."""
        return self.string_of(self.get(key), key)

    def maybe_string(self, key: str) -> str | None:
        """Return a string that is not empty, or None."""
        value = self.get(key)
        return None if value is None else self.string_of(value, key)

    def boolean(self, key: str) -> bool:
        """Return True or False."""
        value = self.get(key)
        if not isinstance(value, bool):
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not true or false")
        return value

    def string_of(self, value: object, key: str) -> str:
        """Return a string that is not empty."""
        if not isinstance(value, str) or not value:
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not a name")
        return value

    def text(self, key: str) -> str:
        """Return an optional string, which may be empty."""
        value = self._entry.get(key, "")
        if not isinstance(value, str):
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not text")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of `choices`."""
        value = self.string(key)
        if value not in choices:
            raise PagehaulError(f"{self.name}.{key}: {value!r} is not one of {', '.join(choices)}")
        return value

    def list(self, key: str) -> list[object]:
        """Return a list."""
        value = self.get(key)
        if not isinstance(value, list):
            raise PagehaulError(f"{self.name}.{key}: must be a list")
        return value

    def mapping(self, key: str, *, optional: bool = False) -> dict[str, Any]:
        """Return an object; an empty one for an optional one that is missing."""
        value = self._entry.get(key) if optional else self.get(key)
        if optional and value is None:
            return {}
        if not isinstance(value, dict):
            raise PagehaulError(f"{self.name}.{key}: must be an object")
        return value
