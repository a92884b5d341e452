# SPDX-License-Identifier: GPL-2.0-only
"""Guests for arm64: an emulated board, with all that it sees of this machine in an initramfs.

The board is QEMU's xlnx-versal-virt: it has eight DMA channels that copy memory, for which the
kernel has a driver, and QEMU describes them to it. It has no nodes; the kernel is told to pretend.
The programs of this machine do not run there, so its files are not shared: the guest has busybox,
our selftests and our modules.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.guest import command_line, cprogs, initramfs, qemu, qemu_options, script
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Task
from pagehaul.host import debian, tools
from pagehaul.kernel.built import Kernel, modules

# The processors that Linux sees. QEMU counts two more, of another kind, which it does not start.
CPUS = 2
_BOARD_CPUS = 4

_COMMAND = "qemu-system-aarch64"


def environment() -> None:
    """Return that of this process: there is nothing to add."""


def prepare(kernel: Kernel, guest: Guest) -> Guest:
    """Return `guest` as it can be had; PagehaulError if it cannot."""
    if guest.model is not None:
        raise PagehaulError(f"no virtual time on {kernel.arch.name}")
    for group in kernel.arch.guest:
        tools.need_for(group)
    _check(guest)
    guest.check_fits()
    qemu.ensure(_COMMAND)
    return replace(guest, accel="tcg")


def _check(guest: Guest) -> None:
    """Raise PagehaulError for a machine that the board for arm64 cannot be."""
    if guest.cpus != CPUS:
        raise PagehaulError(f"a guest for arm64 has {CPUS} CPUs")
    if guest.memory_only_nodes or guest.topology is not None:
        raise PagehaulError("a guest for arm64 has neither a topology nor nodes without CPUs")
    if guest.accel == "kvm":
        raise PagehaulError("a guest for arm64 is emulated: leave --accel out")


def boot(kernel: Kernel, guest: Guest, task: Task, work: Path) -> list[str]:
    """Return the command that boots a guest that does `task`; its files are in `work`."""
    archive = make_initramfs(kernel, script.texts(task), work)
    words = command_line.words(kernel, guest)
    program = qemu.ensure(_COMMAND).words()
    options = board(kernel, guest.nodes, guest.memory_mb, words, archive)
    ports = qemu_options.ports(work, "virtio-serial-device")
    return [str(script.wrapper(work, program)), *options, *ports]


def board(
    kernel: Kernel, nodes: int, memory_mb: int, words: Sequence[str], archive: Path
) -> list[str]:
    """Return QEMU's options that boot `kernel`; its console is on stdout.

    words are parameters for the kernel.
    """
    parameters = ["console=ttyAMA0", "earlycon=pl011,0xff000000", "rdinit=/init"]
    if nodes > 1:
        parameters.append(f"numa=fake={nodes}")
    return [
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
        *("-initrd", str(archive)),
        *("-append", " ".join([*parameters, *words])),
    ]


def make_initramfs(kernel: Kernel, texts: Mapping[str, str], work: Path) -> Path:
    """Make the guest's files in `work`, with `texts`, by their paths in the guest; return them."""
    copies = {f"/bin/{program.name}": program for program in _selftests(kernel)}
    copies |= _modules(kernel, work / "modules")
    return initramfs.make(work, _busybox(), texts, copies)


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


def _modules(kernel: Kernel, work: Path) -> dict[str, Path]:
    """Return our modules, and what modprobe needs to find them, by their paths in the guest."""
    directory = work / "lib/modules" / kernel.release
    for module in modules(kernel):
        target = directory / "kernel" / module.relative_to(kernel.tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, target)
    if not directory.exists():
        return {}
    # depmod misses what a whole installation has.
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (directory / name).touch()
    depmod = tools.find_command("depmod") or "depmod"
    initramfs.run([depmod, "--basedir", str(work), kernel.release])
    files = (path for path in work.rglob("*") if path.is_file())
    return {f"/{path.relative_to(work)}": path for path in files}
