# SPDX-License-Identifier: GPL-2.0-only
"""Guests for arm64: an emulated board, with all that it sees of this machine in an initramfs.

The board is QEMU's xlnx-versal-virt: it has eight DMA channels that copy memory, for which the
kernel has a driver, and QEMU describes them to it. It has no nodes; the kernel is told to pretend.
The programs of this machine do not run there, so its files are not shared: the guest has busybox,
our selftests and our modules.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pagehaul import cprogs, debian, host
from pagehaul.build import Kernel, modules
from pagehaul.errors import PagehaulError

# The processors that Linux sees. QEMU counts two more, of another kind, which it does not start.
CPUS = 2
_BOARD_CPUS = 4

# Where in the guest the command's script and its input are.
SCRIPT = "/pagehaul/run.sh"
STDIN = "/pagehaul/stdin"

# Whatever becomes of the script, the guest ends; should it be init itself that ends, by a panic.
_INIT = f"""\
#!/bin/sh
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
sh {SCRIPT}
poweroff -f
"""


def command(
    kernel: Kernel, nodes: int, memory_mb: int, words: Sequence[str], initramfs: Path
) -> list[str]:
    """Return the command that boots `kernel`; its console is on stdout.

    words are parameters for the kernel.
    """
    parameters = ["console=ttyAMA0", "earlycon=pl011,0xff000000", "rdinit=/init"]
    if nodes > 1:
        parameters.append(f"numa=fake={nodes}")
    return [
        "qemu-system-aarch64",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        *("-display", "none"),
        *("-serial", "stdio"),
        *("-machine", "xlnx-versal-virt"),
        *("-accel", "tcg,thread=multi"),
        *("-global", "virtio-mmio.force-legacy=false"),
        *("-smp", str(_BOARD_CPUS)),
        *("-m", f"{memory_mb}M"),
        *("-kernel", str(kernel.image)),
        *("-initrd", str(initramfs)),
        *("-append", " ".join([*parameters, *words])),
    ]


def make_initramfs(kernel: Kernel, files: Mapping[str, str], work: Path) -> Path:
    """Make the guest's files in `work`, with `files`, by their paths in the guest; return them."""
    root = work / "root"
    for name in ("bin", "dev", "proc", "root", "run", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(_busybox(), root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    for program in _selftests(kernel):
        shutil.copy(program, root / "bin" / program.name)
    _install_modules(kernel, root)
    for path, text in {"/init": _INIT, **files}.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (root / "init").chmod(0o755)
    return _pack(root, work / "initramfs")


def _busybox() -> Path:
    files = debian.unpack("busybox-static", "arm64")
    found = next(files.glob("**/bin/busybox"), None)
    if found is None:
        raise PagehaulError(f"no busybox in {files}; remove that directory and try again")
    return found


def _selftests(kernel: Kernel) -> list[Path]:
    """Our selftests, compiled; none for a kernel without them."""
    if not (cprogs.selftest_sources(kernel.tree, "migrate_copy") / "Makefile").exists():
        return []
    output = cprogs.selftests(kernel.tree, "migrate_copy", (), kernel.arch)
    return sorted(path for path in output.iterdir() if path.name.startswith("migrate_"))


def _install_modules(kernel: Kernel, root: Path) -> None:
    """Put our modules where modprobe finds them."""
    directory = root / "lib/modules" / kernel.release
    for module in modules(kernel):
        target = directory / "kernel" / module.relative_to(kernel.tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, target)
    if not directory.exists():
        return
    # depmod misses what a whole installation has.
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (directory / name).touch()
    depmod = host.find_command("depmod") or "depmod"
    _run([depmod, "--basedir", str(root), kernel.release])


def _pack(root: Path, archive: Path) -> Path:
    """Make an archive of `root` in which everything belongs to root."""
    names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    command = ["cpio", "--create", "--null", "--format=newc", "--owner=0:0", "--quiet"]
    _run([*command, f"--file={archive}"], root, names)
    return archive


def _run(command: Sequence[str], cwd: Path | None = None, stdin: str = "") -> None:
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
