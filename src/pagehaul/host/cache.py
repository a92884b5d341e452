# SPDX-License-Identifier: GPL-2.0-only
"""The cache: what is in it, how large that is, and how it is removed."""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.paths import remove_tree

# Directories of the cache. The tool touches nothing else in PAGEHAUL_CACHE.
CACHES = {
    "source": "kernel sources",
    "tree": "kernel trees and kernels",
    "ccache": "compiled objects",
    "bin": "programs for guests",
    "deb": "Debian packages that were built",
    "debian": "Debian's files for guests",
    "virtme-ng": "files of virtme-ng",
    "logs": "logs of builds and guests",
    "results": "results of `bench`",
}

# Nothing makes these again.
KEPT = ("results",)


def disk_bytes(path: Path) -> int:
    """Return the bytes that a file, or a directory with all in it, takes on the disk.

    A file with several names counts once, an unreadable one as nothing.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for directory, _, names in os.walk(path):
        for name in (".", *names):
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(directory, name))
                if (stat.st_dev, stat.st_ino) not in seen:
                    total += stat.st_blocks * 512
                    if stat.st_nlink > 1:
                        seen.add((stat.st_dev, stat.st_ino))
    return total


@contextlib.contextmanager
def _all_locks(cache: Path) -> Iterator[None]:
    """Hold all locks of the cache; PagehaulError where another pagehaul has one."""
    with contextlib.ExitStack() as held:
        for path in sorted((cache / "locks").glob("*")):
            file = held.enter_context(path.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PagehaulError(
                    f"another pagehaul is at work on {path.name}: wait until it has ended"
                ) from None
        yield


def remove(cache: Path, directories: Iterable[Path]) -> None:
    """Remove directories of the cache; PagehaulError where another pagehaul is at work in it."""
    with _all_locks(cache):
        for path in directories:
            remove_tree(path)
