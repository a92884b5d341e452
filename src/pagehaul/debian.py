# SPDX-License-Identifier: GPL-2.0-only
"""Files of Debian packages for other architectures than this machine's."""

import shutil
import tempfile
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.paths import cache_dir, lock, log_dir, remove_tree
from pagehaul.ui import run_logged

# Seconds for the package lists, and for a package.
_TIMEOUT_S = 600.0


def unpack(package: str, arch: str) -> Path:
    """Return the directory of the files of a package for `arch`, in the cache.

    It is fetched from where this machine gets its packages, and checked as they are, but nothing is
    installed, and this machine's own lists know nothing of that architecture. Raises PagehaulError
    where that cannot be done: no Debian, no network, no such package.
    """
    parent = cache_dir() / "debian"
    parent.mkdir(exist_ok=True)
    target = parent / f"{package}-{arch}"
    with lock("debian"):
        if target.exists():
            return target
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise PagehaulError(
                f"this machine has no apt, by which to get Debian's {package} for {arch}; "
                f"unpack that package as {target} and try again"
            )
        work = Path(tempfile.mkdtemp(prefix=f".{package}-", dir=parent))
        log = log_dir() / f"debian-{package}-{arch}.log"
        log.unlink(missing_ok=True)
        try:
            _download(package, arch, work, log)
            (archive,) = work.glob("*.deb")
            files = work / "files"
            run_logged(["dpkg-deb", "--extract", archive, files], log, title=f"unpacking {package}")
            files.rename(target)
        finally:
            remove_tree(work)
    return target


def _download(package: str, arch: str, work: Path, log: Path) -> None:
    """Fetch a package into `work`, with package lists that are there, too."""
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    settings = {
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        # Whom apt would run as cannot reach into a private directory.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Dir::Cache": str(work),
        "Dir::Cache::Archives": str(work / "archives"),
        "Dir::State": str(work),
        "Dir::State::Lists": str(work / "lists"),
        "Dir::State::status": str(work / "status"),
    }
    apt = ["apt-get", *(f"--option={name}={value}" for name, value in settings.items())]
    for words, title in (
        (["update"], f"getting the package lists for {arch}"),
        (["download", package], f"downloading {package} for {arch}"),
    ):
        run_logged([*apt, *words], log, cwd=work, title=title, timeout=_TIMEOUT_S)
