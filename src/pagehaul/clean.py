# SPDX-License-Identifier: GPL-2.0-only
"""The `clean` verb: what is in the cache, how large it is, and its removal."""

import argparse
import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pagehaul import ui
from pagehaul.errors import PagehaulError, UsageError
from pagehaul.paths import cache_dir, remove_tree

# Directories of the cache. Whatever else somebody has in PAGEHAUL_CACHE is not touched.
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
_KEPT = ("results",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `clean`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = (f"  {name:10} {what}" for name, what in CACHES.items())
    parser.epilog = "\n".join(
        ("caches:", *lines, "", "The next command that needs one makes it again, but for results.")
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which caches (default: all but {', '.join(_KEPT)})",
    )
    parser.add_argument("--yes", action="store_true", help="remove them without asking")


def disk_bytes(path: Path) -> int:
    """Return the bytes that a file, or a directory with all in it, takes on the disk.

    Who has several names is counted once; what cannot be read counts as nothing.
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


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _agreed() -> bool:
    """Ask on the terminal; PagehaulError where there is none."""
    if not sys.stdin.isatty():
        raise PagehaulError("nobody is there to ask: --yes removes them without")
    ui.console.print("Remove all of that? [y/N] ", end="", markup=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run(args: argparse.Namespace) -> int:
    """List the caches, ask, and remove them; returns 0, also when the answer is no."""
    if unknown := [name for name in args.names if name not in CACHES]:
        raise UsageError(f"there is no cache {unknown[0]}: they are {', '.join(CACHES)}")
    wanted = args.names or [name for name in CACHES if name not in _KEPT]
    cache = cache_dir()
    found = {name: cache / name for name in CACHES if name in wanted and (cache / name).is_dir()}
    if not found:
        print(f"nothing to remove in {cache}")
        return 0
    sizes = {name: disk_bytes(path) for name, path in found.items()}
    for name, size in sizes.items():
        print(f"{_size(size):>12}  {name:10} {CACHES[name]}")
    print(f"{_size(sum(sizes.values())):>12}  together, in {cache}")
    if not (args.yes or _agreed()):
        print("nothing was removed")
        return 0
    with _all_locks(cache):
        for path in found.values():
            remove_tree(path)
    print("removed")
    return 0
