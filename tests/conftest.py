# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures that several tests share."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pagehaul import paths
from pagehaul.guest import qemu
from pagehaul.kernel import bases, series
from pagehaul.kernel.series import Patch, Series

# What a kernel's tree must have for the tool; its Makefile configures and "builds" at once.
KERNEL_FILES = {
    "Makefile": """\
# SPDX-License-Identifier: GPL-2.0
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 99
tinyconfig:
\techo CONFIG_TINY=y > $(KCONFIG_CONFIG)
olddefconfig:
\tgrep -v DROPPED $(KCONFIG_CONFIG) > tmp && mv tmp $(KCONFIG_CONFIG)
Image:
\tmkdir -p arch/arm64/boot
\tcp image-arm64 arch/arm64/boot/Image
\techo "$(ARCH) $(CROSS_COMPILE) $(CC) $(LOCALVERSION)" > words
bzImage:
\techo built >> builds
\tmkdir -p arch/x86/boot
\tcp image arch/x86/boot/bzImage
""",
    "Kbuild": "obj-y += mm/\n",
    "mm/migrate.c": "one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
    "mm/Makefile": "obj-y += migrate.o\n",
    "scripts/kconfig/merge_config.sh": '#!/bin/sh\nshift\nbase=$1\nshift\ncat "$@" >> "$base"\n',
}


# What every pretended guest begins with: it finds its ports, and says that it boots.
GUEST_PROLOGUE = """\
echo "$@" > "$0.arguments"
port() { echo "$@" | grep -o "id=pagehaul-$want,path=[^ ]*" | sed 's/.*path=//'; }
want=stdout; out=$(port "$@")
want=stderr; err=$(port "$@")
want=status; status=$(port "$@")
echo "[    0.000000] Linux version 7.3.99"
"""


def _bzimage(release: str) -> bytes:
    """The header of a bootable image of that release."""
    header = bytearray(0x1000)
    header[0x202:0x206] = b"HdrS"
    header[0x20E:0x210] = (0x400).to_bytes(2, "little")
    text = f"{release} (pagehaul@pagehaul) #1 SMP".encode()
    header[0x600 : 0x600 + len(text)] = text
    return bytes(header)


@pytest.fixture
def bzimage() -> Callable[[str], bytes]:
    """Makes the header of a bootable image of a release."""
    return _bzimage


def _arm64_image(release: str) -> bytes:
    """An image for arm64 of that release: its header, and what it prints."""
    header = bytearray(0x1000)
    header[0x38:0x3C] = b"ARM\x64"
    return bytes(header) + f"Linux version {release} (pagehaul@pagehaul)\0".encode()


@pytest.fixture
def arm64_image() -> Callable[[str], bytes]:
    """Makes an image for arm64 of a release."""
    return _arm64_image


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own: each test has one, so that none writes into the user's."""
    path = tmp_path / "cache"
    monkeypatch.setenv("PAGEHAUL_CACHE", str(path))
    path.mkdir()
    yield path
    paths.remove_tree(path)


@pytest.fixture
def kernel_dir(tmp_path: Path) -> Path:
    """A directory that the tool takes for a kernel's source."""
    root = tmp_path / "linux-7.3.99"
    for name, text in KERNEL_FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "scripts/kconfig/merge_config.sh").chmod(0o755)
    (root / "image").write_bytes(_bzimage("7.3.99-test"))
    (root / "image-arm64").write_bytes(_arm64_image("7.3.99-test-arm64"))
    return root


@dataclass(frozen=True)
class Content:
    """What is laid over a pretended kernel: files in `overlay`, and patch 1, 2, ... in `diffs`."""

    overlay: Path
    base: bases.Base

    @property
    def diffs(self) -> Path:
        return self.base.patches

    def load(self) -> Series:
        """Return the series of what is there now: the first patch brings all new files."""
        files = [
            str(path.relative_to(self.overlay))
            for path in sorted(self.overlay.rglob("*"))
            if path.is_file()
        ]
        names = sorted({"1"} | {path.stem for path in self.diffs.glob("*.diff")})
        patches = [Patch(name, "share", tuple(files if name == "1" else ())) for name in names]
        return Series({"share": "All of it"}, tuple(patches), self.overlay.parent)

    def now(self) -> series.Content:
        """Return what is there now, as for tree.prepare()."""
        return series.content(self.base, ["share"])


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Content:
    """A base and a series of their own, empty yet."""
    directory = tmp_path / "bases" / bases.DEFAULT
    base = bases.Base(bases.DEFAULT, "linux", tmp_path / "none", None, "7.3.99", directory)
    found = Content(tmp_path / "kernel", base)
    found.overlay.mkdir()
    found.diffs.mkdir(parents=True)
    monkeypatch.setattr(bases, "get", lambda name=bases.DEFAULT: base)
    monkeypatch.setattr(series, "load", found.load)
    return found


@pytest.fixture
def fake_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put a shell script of that name in front of everything in PATH."""
    directory = tmp_path / "fake-bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def make(name: str, script: str) -> Path:
        path = directory / name
        path.write_text(f"#!/bin/bash\n{script}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture(autouse=True)
def new_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the QEMU in PATH, which may be a script, for one that will do; fetch none."""

    def ensure(command: str = qemu.COMMAND, oldest: tuple[int, int] = qemu.OLDEST) -> qemu.Qemu:
        return qemu.Qemu(Path(command), max(oldest, qemu.OLDEST))

    monkeypatch.setattr(qemu, "ensure", ensure)


@pytest.fixture
def fake_guest(fake_command: Callable[[str, str], Path]) -> Callable[[str, str], Path]:
    """Put a guest that behaves as a script says in place of the command that boots one."""
    return lambda name, script: fake_command(name, GUEST_PROLOGUE + script)


@pytest.fixture
def alive() -> Callable[[str], bool]:
    """Tells whether a process with that text in its command line stays."""

    def running(text: str) -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended
                if text in path.read_text(errors="replace").replace("\0", " "):
                    return True
        return False

    def look(text: str) -> bool:
        for _ in range(20):
            if not running(text):
                return False
            time.sleep(0.1)
        return True

    return look
