# SPDX-License-Identifier: GPL-2.0-only
"""Guests that see nothing of the host: all that they have is in an initramfs.

Two archives of the same files are the same, byte by byte: the kernel that unpacks them does the
same, too, and a guest in virtual time has the same history each time.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pagehaul.errors import PagehaulError

# Where in the guest the command's script and its input are.
SCRIPT = "/pagehaul/run.sh"
STDIN = "/pagehaul/stdin"

# The guest ends, whatever becomes of the script: by a panic, should init itself end.
_INIT = f"""\
#!/bin/sh
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
sh {SCRIPT}
poweroff -f
"""

_DIRECTORIES = ("bin", "dev", "proc", "root", "run", "sys", "tmp")

# Of every file: times would be those of the host.
_TIME = 0


def make(work: Path, busybox: Path, texts: Mapping[str, str], copies: Mapping[str, Path]) -> Path:
    """Make an initramfs in `work` and return it.

    texts are contents, and copies files of the host, by their paths in the guest.
    """
    root = work / "root"
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    for path, file in copies.items():
        shutil.copy(file, _target(root, path))
    for path, text in {"/init": _INIT, **texts}.items():
        _target(root, path).write_text(text, encoding="utf-8")
    (root / "init").chmod(0o755)
    return _pack(root, work / "initramfs")


def _target(root: Path, path: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _pack(root: Path, archive: Path) -> Path:
    """Make an archive of `root` in which everything belongs to root."""
    paths = sorted(root.rglob("*"))
    for path in paths:
        os.utime(path, (_TIME, _TIME), follow_symlinks=False)
    names = "\0".join(str(path.relative_to(root)) for path in paths)
    command = ["cpio", "--create", "--null", "--format=newc", "--owner=0:0", "--quiet"]
    run([*command, "--reproducible", f"--file={archive}"], root, names)
    return archive


def with_libraries(files: Iterable[Path]) -> dict[str, Path]:
    """Return files and, of programs, the libraries that they need, by their paths."""
    found: dict[str, Path] = {}
    for file in files:
        found[str(file)] = file
        # The paths of libraries, and that of the loader, which has no "=>". A static program has
        # none, and ldd then fails.
        told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for library in re.findall(r"^\s(?:\S+ => )?(/\S+) \(0x", told.stdout, re.M):
            found[library] = Path(library)
    return found


def run(command: Sequence[str], cwd: Path | None = None, stdin: str = "") -> None:
    """Run one of the small tools that make the files of a guest."""
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PagehaulError(f"{command[0]} failed: {done.stdout.strip()}")
