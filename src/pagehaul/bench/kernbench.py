# SPDX-License-Identifier: GPL-2.0-only
"""What kernbench runs in a guest: the compiler, as the build of the kernel has called it."""

import re
import shlex
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel.built import Kernel
from pagehaul.paths import cache_dir

# What kernbench compiles, in the tree of the kernel: always the same, and quickly done.
SOURCES = (
    "lib/rbtree.c",
    "lib/bitmap.c",
    "lib/sort.c",
    "lib/string.c",
    "lib/hexdump.c",
    "lib/kobject.c",
)
QUICK_SOURCES = 2


def commands_file(quick: bool) -> str:
    """Return the file of the commands of kernbench."""
    return str(cache_dir() / f"kernbench{'-quick' if quick else ''}.commands")


def sources(quick: bool) -> tuple[str, ...]:
    """Return what is compiled."""
    return SOURCES[:QUICK_SOURCES] if quick else SOURCES


def write_commands(kernel: Kernel, quick: bool) -> None:
    """Write the commands that compile some of the sources of a built `kernel`."""
    lines = [command(kernel.tree, source) for source in sources(quick)]
    Path(commands_file(quick)).write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(tree: Path, source: str) -> str:
    """Return the command that compiles a source of a tree again, and keeps nothing of it.

    The build notes the command of each object beside it. A guest sees the files of the host, and
    cannot write to them.
    """
    path = tree / source
    notes = path.with_name(f".{path.stem}.o.cmd")
    try:
        text = notes.read_text(encoding="utf-8")
    except OSError as error:
        raise PagehaulError(f"cannot read {notes}: {error.strerror}; is it built?") from error
    found = re.match(r"savedcmd_\S+ := (?:ccache )?(.+?)(?: ;.*)?$", text, re.M)
    if found is None:
        raise PagehaulError(f"{notes} does not begin with a command")
    words = re.sub(r" -Wp,-MM?D,\S+", "", found[1])
    words, outputs = re.subn(r" -o \S+\.o ", " -o /dev/null ", words)
    if outputs != 1:
        raise PagehaulError(f"{notes}: the command has no object to leave out")
    return f"cd {shlex.quote(str(tree))} && {words}"
