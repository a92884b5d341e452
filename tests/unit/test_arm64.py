# SPDX-License-Identifier: GPL-2.0-only
"""Guests for arm64, with a pretended board: what is in them, and what comes back."""

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guest_runs import run_guest

from pagehaul.cli import options, run
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs, initramfs, vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, Result
from pagehaul.host import debian, tools
from pagehaul.kernel.arches import ARM64, ARM64_64K
from pagehaul.kernel.built import Kernel

Fake = Callable[[str, str], Path]

# Unpacks the files of a pretended guest.
UNPACK = """\
initrd=$(echo "$@" | sed 's/.*-initrd //; s/ .*//')
mkdir -p "$0.files"
(cd "$0.files" && cpio --extract --quiet --make-directories < "$initrd")
cpio --list --verbose --numeric-uid-gid --quiet < "$initrd" > "$0.list"
"""


class Board:
    """Runs a command in a guest that behaves as a script says."""

    def __init__(self, fake_guest: Fake, tmp_path: Path) -> None:
        self._fake = fake_guest
        self._tmp = tmp_path
        self.kernel = Kernel(
            "pagehaul", tmp_path / "tree", tmp_path / "Image", tmp_path / "c", "7.3.99", ARM64_64K
        )
        self.qemu = tmp_path / "fake-bin/qemu-system-aarch64"

    def __call__(self, script: str, guest: Guest | None = None, **how: Any) -> Result:
        self._fake("qemu-system-aarch64", UNPACK + script)
        guest = guest or Guest(memory_mb=512)
        log = self._tmp / "guest.log"
        return run_guest(self.kernel, guest, ["echo", "a b"], log, timeout=20, **how)

    def file(self, path: str) -> Path:
        """Return a file that the guest had."""
        return Path(f"{self.qemu}.files{path}")

    def said(self, what: str) -> str:
        """Return "arguments" or the "list" of files that the guest got."""
        return Path(f"{self.qemu}.{what}").read_text()


@pytest.fixture
def board(
    cache: Path,
    fake_command: Fake,
    fake_guest: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Board:
    busybox = tmp_path / "unpacked/usr/bin/busybox"
    busybox.parent.mkdir(parents=True)
    busybox.write_text("many tools")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("migrate_content", "notes.txt"):
        (programs / name).write_text(name)
    module = tmp_path / "tree/mm/migrate_copy/dcbm.ko"
    module.parent.mkdir(parents=True)
    module.write_text("a module")
    sources = tmp_path / "tree/tools/testing/selftests/migrate_copy"
    sources.mkdir(parents=True)
    (sources / "Makefile").touch()
    fake_command("depmod", 'touch "$2/lib/modules/$3/modules.dep"')
    monkeypatch.setattr(tools, "need_for", lambda group: None)
    monkeypatch.setattr(debian, "unpack", lambda package, arch: tmp_path / "unpacked")
    monkeypatch.setattr(cprogs, "selftests", lambda *words: programs)
    return Board(fake_guest, tmp_path)


def test_streams_and_status_come_back(board: Board) -> None:
    result = board('echo hello > "$out"; echo oh > "$err"; echo 3 > "$status"')
    assert (result.returncode, result.stdout, result.stderr) == (3, "hello\n", "oh\n")
    assert result.accel == "tcg"


def test_the_guest_has_tools_programs_and_modules(board: Board) -> None:
    board('echo 0 > "$status"')
    assert board.file("/bin/busybox").read_text() == "many tools"
    assert board.file("/bin/sh").readlink() == Path("busybox")
    assert board.file("/bin/migrate_content").exists()
    assert not board.file("/bin/notes.txt").exists()
    modules = board.file("/lib/modules/7.3.99")
    assert (modules / "kernel/mm/migrate_copy/dcbm.ko").read_text() == "a module"
    assert (modules / "modules.dep").exists()
    assert {tuple(line.split()[2:4]) for line in board.said("list").splitlines()} == {("0", "0")}


def test_a_kernel_without_our_code_has_the_tools_only(board: Board, tmp_path: Path) -> None:
    board.kernel = Kernel("foreign", tmp_path, tmp_path / "Image", tmp_path / "c", "6.1", ARM64)
    board('echo 0 > "$status"')
    assert board.file("/bin/busybox").exists()
    assert not board.file("/lib").exists() and not board.file("/bin/migrate_content").exists()


def test_the_command_and_its_input_are_in_the_guest(board: Board) -> None:
    board('echo 0 > "$status"', stdin="some input")
    script = board.file(initramfs.SCRIPT).read_text()
    assert f"(cd -- / && exec echo 'a b') < {initramfs.STDIN} >" in script
    assert board.file(initramfs.STDIN).read_text() == "some input"
    assert f"sh {initramfs.SCRIPT}\npoweroff -f\n" in board.file("/init").read_text()
    for path in (initramfs.SCRIPT, "/init"):
        subprocess.run(["sh", "-n", board.file(path)], check=True)


def test_nodes_are_pretended(board: Board) -> None:
    board('echo 0 > "$status"', Guest(memory_mb=1024, nodes=4, append=("quiet",)))
    arguments = board.said("arguments")
    assert "-machine xlnx-versal-virt" in arguments and "-m 1024M" in arguments
    assert "numa=fake=4" in arguments and " quiet " in arguments and "tsc=" not in arguments
    board('echo 0 > "$status"', Guest(memory_mb=1024, nodes=1))
    assert "numa=" not in board.said("arguments")


def test_complaint_of_the_kernel_is_an_error(board: Board) -> None:
    with pytest.raises(GuestError, match=r"pagehaul-arm64-64k guest .*Internal error: Oops"):
        board('echo "[    1.0] Internal error: Oops: 0000000096000004 [#1] SMP"')


@pytest.mark.parametrize(
    ("guest", "why"),
    [
        (Guest(cpus=4), "has 2 CPUs"),
        (Guest(memory_only_nodes=1), "nodes without CPUs"),
        (Guest(topology="sockets=2"), "topology"),
        (Guest(accel="kvm"), "emulated"),
    ],
)
def test_impossible_machine_is_refused(board: Board, guest: Guest, why: str) -> None:
    with pytest.raises(PagehaulError, match=why):
        board("exit 1", guest)


def test_there_is_no_shell(board: Board) -> None:
    with pytest.raises(PagehaulError, match="no shell on arm64"):
        vm.shell(board.kernel, Guest())


def test_failing_tool_is_an_error(board: Board, fake_command: Fake) -> None:
    fake_command("depmod", "echo bad module; exit 1")
    with pytest.raises(PagehaulError, match="depmod failed: bad module"):
        board('echo 0 > "$status"')


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parser.parse_args([*words, "--", "true"])


def test_memory_depends_on_the_architecture() -> None:
    assert options.guests_of(parsed())[0].memory_mb == 3072
    assert options.guests_of(parsed("--arch", "arm64"), ARM64)[0].memory_mb == 2048
    assert options.guests_of(parsed("--mem", "4G"), ARM64)[0].memory_mb == 4096


def test_image_must_be_for_the_architecture(
    tmp_path: Path, arm64_image: Callable[[str], bytes]
) -> None:
    image = tmp_path / "Image"
    image.write_bytes(arm64_image("6.12"))
    assert options.kernel_of(parsed("--kernel", str(image)), ARM64_64K).release == "6.12"
    with pytest.raises(PagehaulError, match="is for arm64, not for x86_64"):
        options.kernel_of(parsed("--kernel", str(image)))
