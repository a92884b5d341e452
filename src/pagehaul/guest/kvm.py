# SPDX-License-Identifier: GPL-2.0-only
"""Whether KVM really works here."""

import os
import selectors
import subprocess
import time
from pathlib import Path

from pagehaul.guest import qemu
from pagehaul.locks import lock
from pagehaul.paths import cache_dir
from pagehaul.ui import kill_group

# The device, and the seconds that it gives a kernel to print its first line, and
# to boot to its end.
_KVM = Path("/dev/kvm")
# What a kernel says that has booted to its end, the last of them one without block devices.
_NO_ROOT = (b"VFS: Unable to mount root fs", b"VFS: Cannot open root", b"No working init found")
_KVM_FIRST_LINE_S = 5.0
_KVM_BOOT_S = 20.0


def kvm_works(image: Path) -> bool:
    """Whether the kernel `image` really boots on KVM here, to where it misses a root file system.

    A /dev/kvm that exists says nothing: behind it there may be a guest that runs SeaBIOS and then
    hangs. Bounded to 5 s for the kernel's first line, and to 20 s in all. The answer is kept until
    the host boots again.
    """
    if not os.access(_KVM, os.R_OK | os.W_OK):
        return False
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = cache_dir() / f"kvm-{boot_id}"
    # Suites that begin at once must not disturb each other's probe, nor differ in the answer.
    with lock("kvm"):
        if not known.exists():
            for stale in cache_dir().glob("kvm-*"):
                stale.unlink(missing_ok=True)
            answer = _boots_on_kvm(image)
            temporary = known.with_suffix(f".{os.getpid()}")
            temporary.write_text("yes" if answer else "no")
            temporary.replace(known)
        return known.read_text() == "yes"


def _boots_on_kvm(image: Path) -> bool:
    found = qemu.ensure(oldest=qemu.ANY)
    command = [str(found.binary), *found.options()]
    command += ["-accel", "kvm", "-cpu", "host", "-machine", "q35"]
    command += ["-smp", "2", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none"]
    command += ["-no-reboot", "-serial", "stdio", "-kernel", str(image)]
    command += ["-append", "earlyprintk=serial,ttyS0,115200 console=ttyS0 panic=-1"]
    process = subprocess.Popen(
        command,
        env={**os.environ, **found.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = time.monotonic()
    seen = b""
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                bound = _KVM_BOOT_S if b"Linux version" in seen else _KVM_FIRST_LINE_S
                left = started + bound - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return False
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return False
                seen += data
                if any(text in seen for text in _NO_ROOT):
                    return True
    finally:
        kill_group(process)
        if process.stdout is not None:
            process.stdout.close()
