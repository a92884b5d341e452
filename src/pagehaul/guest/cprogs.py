# SPDX-License-Identifier: GPL-2.0-only
"""Builds the static C programs that run in a guest, or on a real machine."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel.arches import X86_64, Arch
from pagehaul.locks import lock
from pagehaul.paths import REPO, cache_dir, log_dir

# Seconds that a directory of small programs may take to compile on a busy machine.
_TIMEOUT_S = 300.0

_INCLUDED = re.compile(rb'^#include "(\.\./[^"]+)"', re.M)


def build_static(directory: Path) -> Path:
    """Run make in `directory` and return the directory of its programs, in the cache.

    The Makefile puts its programs into the directory that the variable `O` names. Nothing is
    written beside the sources. Other sources of the same name, as in another clone, have programs
    of their own: make would only compare the times of their files.
    """
    if not (directory / "Makefile").is_file():
        raise PagehaulError(f"{directory} has no Makefile")
    tools.need_for("programs")
    resolved = directory.resolve()
    inside = resolved.is_relative_to(REPO)
    name = "-".join(resolved.relative_to(REPO).parts) if inside else resolved.name
    output = cache_dir() / "bin" / f"{name}-{_digest(directory)}"
    output.mkdir(parents=True, exist_ok=True)
    log = log_dir() / f"make-{name}.log"
    log.write_text("", encoding="utf-8")
    command = ["make", "-C", str(directory), f"O={output}"]
    # Another one may want the same programs, and would run those that are half written.
    with lock(f"programs-{name}"):
        ui.run_logged(command, log, title=f"Compile {name}", timeout=_TIMEOUT_S)
    return output


def _digest(directory: Path) -> str:
    """Return a short hash of the files of a directory, and of what they include of others."""
    found = hashlib.sha256()
    files = {path for path in directory.iterdir() if path.is_file()}
    for file in tuple(files):
        for name in _INCLUDED.findall(file.read_bytes()):
            files.add((directory / name.decode()).resolve())
    for file in sorted(files):
        content = file.read_bytes()
        found.update(f"{file.name} {len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


def selftest_sources(tree: Path, directory: str) -> Path:
    """Return where a kernel's tree has the sources of its selftests in `directory`."""
    return tree / "tools/testing/selftests" / directory


def selftests(tree: Path, directory: str, programs: Sequence[str], arch: Arch = X86_64) -> Path:
    """Compile programs, or all, of a directory of the kernel's selftests; return where they are."""
    tools.need_for("programs")
    # Other machines than this one get ours only, which need no library.
    for group in ("check",) if arch is X86_64 else arch.build:
        tools.need_for(group)
    output = cache_dir() / "bin" / f"selftests-{directory}-{tree.name}"
    output.mkdir(parents=True, exist_ok=True)
    log = log_dir() / f"selftests-{directory}.log"
    cross = [f"ARCH={arch.kernel}", f"CROSS_COMPILE={arch.cross}"] if arch.cross else []
    ui.run_logged(
        [
            "make",
            "-C",
            selftest_sources(tree, directory),
            f"OUTPUT={output}",
            *cross,
            *(str(output / name) for name in programs),
        ],
        log,
        title=f"Compile the selftests in {directory}",
        timeout=_TIMEOUT_S,
    )
    return output
