# SPDX-License-Identifier: GPL-2.0-only
"""A QEMU that is new enough to emulate processors.

It is the one in PATH, if that will do. Debian 12 has QEMU 7.2, and a newer one in its backports:
that goes into the cache, beside the one that is installed.

QEMU 7.2 breaks guests. Before it translates a page of code it does not lock it, so that a CPU may
run what another CPU has patched away: "Oops: int3", where the kernel's own breakpoint is gone
already. Commit deba78709ae8 of QEMU 8.1, "accel/tcg: Always lock pages before translation", ended
that. Virtual time needs the plugins of 10.0.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import debian, tools
from pagehaul.locks import lock
from pagehaul.paths import remove_tree

# The first release that will do for guests that are emulated, and for KVM, which emulates little.
OLDEST = (10, 0)
ANY = (0, 0)

# The command for x86, and the packages of Debian with each command.
COMMAND = "qemu-system-x86_64"
PACKAGES = {COMMAND: "qemu-system-x86", "qemu-system-aarch64": "qemu-system-arm"}

# The only release of Debian that has an older one of its own and a newer one in its backports.
_WITH_BACKPORT = 12

# Directories of firmware in a system's files.
_FIRMWARE = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")


@dataclass(frozen=True)
class Qemu:
    """A QEMU: its program, its version, and where its libraries and its firmware are.

    The directories are those that the program would not look into by itself.
    """

    binary: Path
    version: tuple[int, int]
    libraries: tuple[Path, ...] = ()
    firmware: tuple[Path, ...] = ()

    def environment(self) -> dict[str, str]:
        """Return the variables that it needs besides those of this process."""
        if not self.libraries:
            return {}
        paths = [str(path) for path in self.libraries]
        paths += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
        found = {"LD_LIBRARY_PATH": ":".join(paths)}
        # It would load those of an older QEMU that is installed, and abort.
        if modules := [path / "qemu" for path in self.libraries if (path / "qemu").is_dir()]:
            found["QEMU_MODULE_DIR"] = str(modules[0])
        return found

    def options(self) -> list[str]:
        """Return the options that it needs first."""
        return [word for path in self.firmware for word in ("-L", str(path))]

    def words(self, environment: Mapping[str, str] | None = None) -> str:
        """Return the words of a shell command that runs it with more variables; options follow."""
        variables = {**self.environment(), **(environment or {})}
        env = ["env", *(f"{name}={value}" for name, value in variables.items())]
        return shlex.join([*(env if variables else []), str(self.binary), *self.options()])


def version_of(text: str) -> tuple[int, int] | None:
    """Return the version in what `qemu-system-x86_64 --version` prints; None if there is none."""
    match = re.search(r"^QEMU emulator version (\d+)\.(\d+)", text, re.M)
    return None if match is None else (int(match[1]), int(match[2]))


def ensure(command: str = COMMAND, oldest: tuple[int, int] = OLDEST) -> Qemu:
    """Return a QEMU of at least a version, fetched if there is none.

    Raises PagehaulError, and says what to do, where none is to be had: an old QEMU on a system that
    has no newer one, no network, no apt.
    """
    found = _installed(command)
    if found is not None and found.version >= oldest:
        return found
    release = debian.release()
    # Guests that begin at the same time ask at the same time.
    with lock("qemu"):
        if release is not None and release.number == _WITH_BACKPORT:
            return _backport(command, release)
        if found is None:
            tools.require(PACKAGES[command])
            found = _installed(command)
    if found is None or found.version < oldest:
        have = "there is none" if found is None else f"{found.binary} is {_dotted(found.version)}"
        raise PagehaulError(
            f"emulated guests need QEMU {_dotted(OLDEST)} or newer, and {have}; "
            f"install a newer {command} in PATH and try again"
        )
    return found


def simulator() -> Qemu:
    """Return a QEMU that can run a guest in virtual time; raises PagehaulError as ensure() does."""
    if platform.machine() != "x86_64":
        raise PagehaulError(f"virtual time needs an x86-64 machine; this is {platform.machine()}")
    return ensure()


def _installed(command: str) -> Qemu | None:
    """Return the QEMU in PATH; None if there is none that runs."""
    path = shutil.which(command)
    if path is None:
        return None
    version = _version(Path(path), {})
    return None if version is None else Qemu(Path(path), version)


def _backport(command: str, release: debian.Release) -> Qemu:
    """Return the QEMU of a release's backports, in the cache."""
    found = None
    # The machine may lack libraries by now that it had when the files were unpacked.
    for again in (False, True):
        files = debian.unpack_backport(PACKAGES[command], release)
        found = _unpacked(command, files)
        if found is not None and found.version >= OLDEST:
            return found
        if not again:
            remove_tree(files)
    what = "does not run" if found is None else f"is {_dotted(found.version)}"
    raise PagehaulError(
        f"the QEMU of {release.codename}-backports {what}, and emulated guests need "
        f"{_dotted(OLDEST)} or newer; install a newer {command} in PATH and try again"
    )


def _unpacked(command: str, files: Path) -> Qemu | None:
    """Return the QEMU in the files of its packages; None if it does not run."""
    libraries = [path for path in files.glob("**/*-linux-gnu") if any(path.glob("*.so*"))]
    firmware = [
        root / name for root in (files, Path("/")) for name in _FIRMWARE if (root / name).is_dir()
    ]
    qemu = Qemu(files / "usr/bin" / command, (0, 0), tuple(sorted(libraries)), tuple(firmware))
    version = _version(qemu.binary, qemu.environment())
    return None if version is None else Qemu(qemu.binary, version, qemu.libraries, qemu.firmware)


def _version(binary: Path, environment: Mapping[str, str]) -> tuple[int, int] | None:
    try:
        done = subprocess.run(
            [binary, "--version"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return version_of(done.stdout)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
