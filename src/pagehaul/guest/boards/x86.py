# SPDX-License-Identifier: GPL-2.0-only
"""Guests for x86: under virtme-ng, or with nothing of the host's but some files.

Under virtme-ng the guest sees the host's files, read-only, at the same paths. The command's stdout,
stderr and exit status come back over virtio ports of our own, found by their names in sysfs,
because virtme-ng's need udev in the host's root and share a descriptor with the console.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.guest import (
    command_line,
    initramfs,
    kvm,
    monitor,
    qemu,
    qemu_options,
    script,
    virtual_time,
)
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Task
from pagehaul.host import tools
from pagehaul.kernel.built import Kernel
from pagehaul.paths import REPO, cache_dir

# Runs before virtme's init, and hides two programs of the host that it would start: what they
# prepare is of no use here, and takes half of the time of a boot. A device 0, 0 in a layer of an
# overlay is a whiteout: it hides that file of the layers below, from virtme's own overlay, too.
# Where that cannot be done, the guest boots as without it.
_INIT = """\
#!/bin/sh
mount -t tmpfs hidden /mnt &&
    mkdir -p /mnt/bin /mnt/lib/systemd &&
    mknod /mnt/bin/systemd-tmpfiles c 0 0 &&
    mknod /mnt/lib/systemd/systemd-udevd c 0 0 &&
    mount -t overlay -o xino=off,lowerdir=/mnt:/usr usr /usr
umount -l /mnt
exec "$virtme_init" "$@"
"""

# Lines of the script that runs QEMU: the kernel starts that init, and tells it virtme's. The kernel
# would not take other names.
WITH_INIT = """\
case $0 in
*[!A-Za-z0-9_./-]*) ;;
*)
    for word; do
        shift
        case $word in
        *" init="*) word="${word%% init=*} init=$0.init virtme_init=${word#* init=}" ;;
        esac
        set -- "$@" "$word"
    done
    ;;
esac
"""


def prepare(kernel: Kernel, guest: Guest) -> Guest:
    """Return `guest` as it can be had; PagehaulError if it cannot."""
    if guest.model is not None:
        virtual_time.check(guest)
        guest.check_fits()
        virtual_time.simulator()
        return replace(guest, accel="tcg")
    accel = _accelerator(guest, kernel.image)
    guest.check_fits()
    _qemu(accel)
    return replace(guest, accel=accel)


def _qemu(accel: str) -> qemu.Qemu:
    """Return the QEMU for guests on an accelerator: KVM needs no newer one than there is."""
    return qemu.ensure(oldest=qemu.ANY if accel == "kvm" else qemu.OLDEST)


def _accelerator(guest: Guest, image: Path) -> str:
    if guest.icount or guest.accel == "tcg":
        return "tcg"
    works = kvm.kvm_works(image)
    if guest.accel == "kvm" and not works:
        raise PagehaulError("no guest boots on this machine's KVM; use TCG")
    return "kvm" if works else "tcg"


def boot(kernel: Kernel, guest: Guest, task: Task, work: Path) -> list[str]:
    """Return the command that boots a guest that does `task`; its files are in `work`."""
    if task.files is None:
        return _shared(kernel, guest, task, work)
    return _sealed(kernel, guest, task, task.files, work)


def shell(kernel: Kernel, guest: Guest, work: Path) -> list[str]:
    """Return the command that boots a guest with root's shell on this terminal."""
    return [*_vng(kernel, guest, (), [REPO], work), "--user", "root"]


def _shared(kernel: Kernel, guest: Guest, task: Task, work: Path) -> list[str]:
    """Return the command that boots a guest that sees the host's files."""
    stdin_file = Path("/dev/null")
    if task.stdin is not None:
        stdin_file = work / "stdin"
        stdin_file.write_text(task.stdin, encoding="utf-8")
    path = work / "run.sh"
    text = script.script(task.command, str(REPO), str(stdin_file))
    path.write_text(text, encoding="utf-8")
    ports = [*qemu_options.ports(work, "virtio-serial-pci"), *monitor.options(work)]
    vng = _vng(kernel, guest, ports, [REPO, work], work)
    # The guest has overlays over /home and other directories. They remember what is not there.
    vng += [f"--rodir={each}" for each in task.watched]
    return [*vng, "--verbose", "--exec", f"sh {shlex.quote(str(path))}"]


def _sealed(
    kernel: Kernel, guest: Guest, task: Task, files: Sequence[Path], work: Path
) -> list[str]:
    """Return the command that boots a guest with nothing of the host's but `files`."""
    tools.require("busybox-static", "cpio")
    busybox = Path(tools.find_command("busybox") or "busybox")
    texts = script.texts(task)
    archive = initramfs.make(work, busybox, texts, initramfs.with_libraries([busybox, *files]))
    # Each message takes time on a serial line; complaints are warnings, or worse.
    words = ["console=ttyS0", "loglevel=5", "rdinit=/init", *command_line.words(kernel, guest)]
    program, options = _qemu(guest.accel).words(), []
    if guest.model is not None:
        simulator = virtual_time.simulator()
        program = simulator.program()
        options = simulator.options(kernel, guest, guest.model, virtual_time.report_of(work))
        # All that is random in the guest, too.
        options += ["-seed", "1"]
        words.append("norandmaps")
    return [
        str(script.wrapper(work, program)),
        *("-machine", "q35"),
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        *("-display", "none"),
        *("-serial", "stdio"),
        *("-smp", f"{guest.cpus},{guest.topology or guest.default_topology()}"),
        *("-m", f"{guest.memory_mb}M"),
        *qemu_options.machine(guest),
        *options,
        *qemu_options.ports(work, "virtio-serial-pci"),
        *monitor.options(work),
        *("-kernel", str(kernel.image)),
        *("-initrd", str(archive)),
        *("-append", shlex.join(words)),
    ]


def _vng(
    kernel: Kernel, guest: Guest, ports: Sequence[str], shared: Sequence[Path], work: Path
) -> list[str]:
    """Return the command that boots a guest; `ports` are more options for QEMU."""
    options = [*qemu_options.machine(guest), *ports]
    program = _qemu(guest.accel).words()
    if guest.model is not None:
        simulator = virtual_time.simulator()
        options += simulator.options(kernel, guest, guest.model, virtual_time.report_of(work))
        program = simulator.program()
    script.executable(work / "qemu.init", _INIT)
    command = [
        str(_vng_path()),
        f"--run={kernel.image}",
        "--force-9p",
        "--disable-microvm",
        "--name=pagehaul",
        f"--cpus={guest.cpus},{guest.topology or guest.default_topology()}",
        f"--memory={guest.memory_mb}M",
        f"--append={shlex.join(command_line.words(kernel, guest))}",
        f"--qemu-opts={shlex.join(options)}",
        # virtme-ng hands it to a shell.
        f"--qemu={shlex.quote(str(script.wrapper(work, program, WITH_INIT)))}",
    ]
    if guest.accel == "tcg":
        command.append("--disable-kvm")
    return command + [f"--rodir={path}" for path in shared if _hidden_in_guest(path)]


def _vng_path() -> Path:
    beside = Path(sys.executable).parent / "vng"
    found = beside if beside.exists() else shutil.which("vng")
    if found is None:
        raise PagehaulError("virtme-ng (vng) is not installed; start ./pagehaul, which installs it")
    return Path(found)


def environment() -> dict[str, str]:
    """Return the environment for boot() and shell()."""
    # vng finds virtme-run by PATH, and reads defaults of the user's that would change the guest.
    return {
        **os.environ,
        "PATH": f"{_vng_path().parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(_made(cache_dir() / "virtme-ng")),
        "XDG_CONFIG_HOME": str(_made(cache_dir() / "virtme-ng" / "config")),
    }


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _hidden_in_guest(path: Path) -> bool:
    """Whether the guest mounts an empty directory over a part of the host that has `path`."""
    hidden = ("/run", "/dev", "/var/tmp", "/var/log", "/var/cache")
    return any(path.is_relative_to(directory) for directory in hidden)
