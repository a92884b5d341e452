# SPDX-License-Identifier: GPL-2.0-only
"""What this process has spent its time on, such as boots of guests."""

from threading import Lock

_lock = Lock()
_spent: dict[str, float] = {}


def add(**amounts: float) -> None:
    """Add seconds, or numbers, to what is known by these names; threads may do so at once."""
    with _lock:
        for name, amount in amounts.items():
            _spent[name] = _spent.get(name, 0) + amount


def so_far() -> dict[str, float]:
    """Return all that was added, by names."""
    with _lock:
        return dict(_spent)
