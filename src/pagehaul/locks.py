# SPDX-License-Identifier: GPL-2.0-only
"""Locks in the cache, so that two runs of the tool do not make the same thing at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from pagehaul.paths import cache_dir
from pagehaul.ui import console

_ours: set[str] = set()  # held by a thread of this process


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the cache's lock `name` while the block runs; waits for whoever holds it."""
    directory = cache_dir() / "locks"
    directory.mkdir(exist_ok=True)
    with (directory / name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if name not in _ours:
                console.print(f"waiting for another pagehaul, which is at work on {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _ours.add(name)
        try:
            yield
        finally:
            _ours.discard(name)
