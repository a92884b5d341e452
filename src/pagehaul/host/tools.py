# SPDX-License-Identifier: GPL-2.0-only
"""What the host must have installed, and how it gets there."""

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.locks import lock
from pagehaul.paths import log_dir
from pagehaul.ui import console, step

# Debian package -> what shows that it, or the same thing from elsewhere, is there: a command, or
# the path (a pattern) of a file. A package that is not listed has a command of its own name.
_PROBES = {
    "bc": "bc",
    "bison": "bison",
    "busybox-static": "busybox",
    "ccache": "ccache",
    "chromium": "chromium",
    "cpio": "cpio",
    "debhelper": "dh",
    "dpkg-dev": "dpkg-buildpackage",
    "e2fsprogs": "mkfs.ext4",
    "fakeroot": "fakeroot",
    "flex": "flex",
    "fonts-dejavu-core": "/usr/share/fonts/**/DejaVuSans.ttf",
    "gcc": "gcc",
    "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
    "kmod": "depmod",
    "libc6-dev": "/usr/lib/libc.a",
    "libc6-dev-arm64-cross": "/usr/aarch64-linux-gnu/lib/libc.a",
    "libcap-dev": "/usr/include/sys/capability.h",
    "libelf-dev": "/usr/include/gelf.h",
    "libnuma-dev": "/usr/include/numa.h",
    "libssl-dev": "/usr/include/openssl/ssl.h",
    "liburing-dev": "/usr/include/liburing.h",
    "linux-source-6.12": "/usr/src/linux-source-6.12.tar.xz",
    "make": "make",
    "patch": "patch",
    "perl": "perl",
    "qemu-system-arm": "qemu-system-aarch64",
    "qemu-system-x86": "qemu-system-x86_64",
    "redis-tools": "redis-check-rdb",
    "rsync": "rsync",
    "sparse": "sparse",
    "stress-ng": "stress-ng",
    "xfsprogs": "mkfs.xfs",
    "xz-utils": "xz",
}

# What each kind of work needs.
_GROUPS = {
    "build": (
        "bc",
        "bison",
        "ccache",
        "cpio",
        "flex",
        "gcc",
        "kmod",
        "libc6-dev",
        "libelf-dev",
        "libssl-dev",
        "make",
        "patch",
        "perl",
        "rsync",
        "xz-utils",
    ),
    "browser": ("chromium", "fonts-dejavu-core"),
    "build-arm64": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    "check": ("e2fsprogs", "libcap-dev", "libnuma-dev", "liburing-dev", "perl", "sparse"),
    "deb": ("debhelper", "dpkg-dev", "fakeroot"),
    "guest-arm64": ("cpio", "kmod"),
    "programs": ("gcc", "libc6-dev", "make"),
    "unit": ("cpio", "gcc", "libc6-dev", "make", "patch", "perl", "rsync", "xz-utils"),
}

# What installs packages elsewhere, by ID or ID_LIKE of os-release, and what Debian's packages are
# called there, but for those that have the same name or do not exist.
_ELSEWHERE: dict[str, tuple[str, dict[str, str]]] = {
    "fedora": (
        "dnf install",
        {
            "busybox-static": "busybox",
            "fonts-dejavu-core": "dejavu-sans-fonts",
            "libc6-dev": "glibc-static",
            "libcap-dev": "libcap-devel",
            "libelf-dev": "elfutils-libelf-devel",
            "libnuma-dev": "numactl-devel",
            "libssl-dev": "openssl-devel",
            "liburing-dev": "liburing-devel",
            "qemu-system-arm": "qemu-system-aarch64",
            "redis-tools": "valkey-compat-redis",
            "xz-utils": "xz",
        },
    ),
    "arch": (
        "pacman -S",
        {
            "busybox-static": "busybox",
            "dpkg-dev": "dpkg",
            "fonts-dejavu-core": "ttf-dejavu",
            "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
            "libc6-dev": "glibc",
            "libc6-dev-arm64-cross": "aarch64-linux-gnu-glibc",
            "libcap-dev": "libcap",
            "libelf-dev": "libelf",
            "libnuma-dev": "numactl",
            "libssl-dev": "openssl",
            "liburing-dev": "liburing",
            "qemu-system-arm": "qemu-system-aarch64",
            "redis-tools": "valkey",
            "xz-utils": "xz",
        },
    ),
}
_OS_RELEASE = Path("/etc/os-release")

# Where an ordinary user's PATH does not look.
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


def need_for(group: str) -> None:
    """Install what is missing for one of the kinds of work above, such as "build"."""
    require(*_GROUPS[group])


def require(*packages: str) -> None:
    """Install those of the Debian `packages` that are missing, after saying which.

    Raises PagehaulError where that cannot be done: no Debian, no root and no sudo, no network.
    """
    if all(map(_present, packages)):
        return
    # Two that install at once would be in each other's way.
    with lock("apt"):
        _install([package for package in packages if not _present(package)])


def _install(missing: list[str]) -> None:
    if not missing:
        return
    names = " ".join(missing)
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        raise PagehaulError(_elsewhere(missing))
    if os.geteuid() == 0:
        prefix: list[str] = []
    elif shutil.which("sudo"):
        prefix = ["sudo"]
    else:
        raise PagehaulError(f"missing packages; as root, run: apt-get install {names}")
    console.print(f"Installing Debian packages that are missing: {names}")
    if prefix and subprocess.run(["sudo", "-v"], check=False).returncode != 0:
        raise PagehaulError(f"missing packages; as root, run: apt-get install {names}")
    log = log_dir() / "apt.log"
    install = ["install", "--yes", "--no-install-recommends", *missing]
    # A fresh machine has no package lists, and an old one has stale lists: both show only when the
    # installation fails.
    if not _apt(prefix, install, log, f"apt-get install {names}"):
        _apt(prefix, ["update"], log, "apt-get update")
        if not _apt(prefix, install, log, f"apt-get install {names}"):
            raise PagehaulError(f"apt-get could not install {names}; {log} says why")
    still = [package for package in missing if not _present(package)]
    if still:
        raise PagehaulError(f"installed, but not to be found: {' '.join(still)}; see {log}")


def _elsewhere(missing: list[str]) -> str:
    """Return what to do about missing packages on a system without apt."""
    text = _OS_RELEASE.read_text(encoding="utf-8") if _OS_RELEASE.exists() else ""
    fields = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', text, re.M))
    for system in f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".split():
        if system in _ELSEWHERE:
            install, renamed = _ELSEWHERE[system]
            names = " ".join(renamed.get(package, package) for package in missing)
            return f"missing packages; as root, run: {install} {names}"
    return (
        f"missing on this machine, which has no apt: {' '.join(missing)} (names of Debian "
        "packages); install them and try again"
    )


def _present(package: str) -> bool:
    probe = _PROBES.get(package)
    if probe is None:
        if shutil.which("dpkg-query") is None:
            return find_command(package) is not None
        status = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
            capture_output=True,
            text=True,
            check=False,
        )
        return status.stdout == "installed"
    if probe.startswith("/"):
        # Headers and libraries may be in the directory of their architecture.
        where = re.sub(r"^/usr/(include|lib)/", r"/usr/\1/*/", probe)
        others = [where, probe.replace("/usr/lib/", "/usr/lib64/")]
        return any(glob.glob(path, recursive=True) for path in (probe, *others))
    return find_command(probe) is not None


def find_command(name: str) -> str | None:
    """Path of a command, looked for in the system's directories too; None when there is none."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PATH}")


def _apt(prefix: list[str], arguments: list[str], log: Path, title: str) -> bool:
    # Stays in this session, so that sudo knows that the password was given here.
    command = [
        *prefix,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--option=DPkg::Lock::Timeout=300",
        "--option=Acquire::Retries=5",
        *arguments,
    ]
    with step(title) as current, log.open("a", encoding="utf-8") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            for raw in process.stdout:
                line = raw.decode(errors="replace")
                out.write(line)
                current.detail(line.strip()[:60])
        return process.returncode == 0
