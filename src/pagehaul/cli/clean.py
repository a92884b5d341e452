# SPDX-License-Identifier: GPL-2.0-only
"""The `clean` verb: lists what is in the cache, and removes it."""

import argparse
import sys

from pagehaul import ui
from pagehaul.errors import PagehaulError, UsageError
from pagehaul.host.cache import CACHES, KEPT, disk_bytes, remove
from pagehaul.paths import cache_dir


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
        help=f"which caches (default: all but {', '.join(KEPT)})",
    )
    parser.add_argument("--yes", action="store_true", help="remove them without asking")


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
    wanted = args.names or [name for name in CACHES if name not in KEPT]
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
    remove(cache, found.values())
    print("removed")
    return 0
