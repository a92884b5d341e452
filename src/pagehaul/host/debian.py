# SPDX-License-Identifier: GPL-2.0-only
"""Files of Debian packages that are not installed: apt with a state of its own, in the cache."""

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.locks import lock
from pagehaul.paths import cache_dir, log_dir, remove_tree
from pagehaul.ui import Command, run_logged

# Seconds for the package lists, and for the packages.
_TIMEOUT_S = 600.0

# Unpacks the archives that it is given.
_EXTRACT = 'for archive; do dpkg-deb --extract "$archive" files || exit; done'

# Which system this is, where apt gets its packages, and whose signatures Debian's carry.
_OS_RELEASE = Path("/etc/os-release")
_SOURCES = Path("/etc/apt")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_STATUS = Path("/var/lib/dpkg/status")

# Where every machine with a network gets Debian's packages.
_MIRROR = "http://deb.debian.org/debian"


@dataclass(frozen=True)
class Release:
    """A release of Debian, such as 12, "bookworm"; the number of one to come is 0."""

    number: int
    codename: str


def release() -> Release | None:
    """Return the release of Debian that this machine runs; None where it runs something else."""
    try:
        text = _OS_RELEASE.read_text(encoding="utf-8")
    except OSError:
        return None
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.M))
    if fields.get("ID") != "debian" or not fields.get("VERSION_CODENAME"):
        return None
    number = fields.get("VERSION_ID", "")
    return Release(int(number) if number.isdigit() else 0, fields["VERSION_CODENAME"])


def unpack(package: str, arch: str) -> Path:
    """Return the directory of the files of a package for `arch`, in the cache.

    It is fetched from where this machine gets its packages, and checked as they are, but nothing is
    installed, and this machine's own lists know nothing of that architecture. Raises PagehaulError
    where that cannot be done: no Debian, no network, no such package.
    """
    settings = {"APT::Architecture": arch, "APT::Architectures": arch}
    return _unpack(f"{package}-{arch}", f"{package} for {arch}", ["download", package], settings)


def unpack_backport(package: str, of: Release) -> Path:
    """Return the directory of the files of a package from the backports of a release, in the cache.

    The packages that it depends on are in there, too, but for those that are installed. The machine
    itself knows nothing of the backports afterwards. Raises PagehaulError as unpack() does.
    """
    suite = f"{of.codename}-backports"
    mirror = _mirror(of)
    sources = "".join(
        f"deb [signed-by={_KEYRING}] {mirror} {name} main\n" for name in (of.codename, suite)
    )
    settings = {
        # Else apt goes on without the lists that it cannot get.
        "APT::Update::Error-Mode": "any",
        # The machine's preferences are about its own sources.
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::status": str(_STATUS),
        # Nothing is installed: another apt may do so, and nobody has to be root.
        "Debug::NoLocking": "true",
    }
    words = [
        "install",
        "--download-only",
        "--yes",
        "--allow-change-held-packages",
        "--no-install-recommends",
        f"--target-release={suite}",
        package,
    ]
    return _unpack(f"{package}-{suite}", f"{package} from {suite}", words, settings, sources)


def _unpack(
    name: str,
    what: str,
    words: list[str],
    settings: Mapping[str, str],
    sources: str | None = None,
) -> Path:
    """Return the directory `name` of the cache, with the files of what apt downloads by `words`."""
    parent = cache_dir() / "debian"
    parent.mkdir(exist_ok=True)
    target = parent / name
    with lock("debian"):
        if target.exists():
            return target
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise PagehaulError(
                f"this machine has no apt, by which to get Debian's {what}; "
                f"unpack that package as {target} and try again"
            )
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
        log = log_dir() / f"debian-{name}.log"
        log.unlink(missing_ok=True)
        try:
            apt = _private_apt(work, settings, sources)
            for command, title in (
                (["update"], f"getting the package lists for {what}"),
                (words, f"downloading {what}"),
            ):
                run_logged(Command([*apt, *command], work), log, title=title, timeout=_TIMEOUT_S)
            archives = [*sorted(work.glob("*.deb")), *sorted(work.glob("archives/*.deb"))]
            extract = Command(["sh", "-c", _EXTRACT, "sh", *archives], work)
            run_logged(extract, log, title=f"unpacking {what}")
            (work / "files").rename(target)
        except PagehaulError as error:
            raise PagehaulError(
                f"cannot get Debian's {what} (does this machine reach the network?): {error}"
            ) from error
        finally:
            remove_tree(work)
    return target


def _private_apt(work: Path, settings: Mapping[str, str], sources: str | None) -> list[str]:
    """Return the words of an apt that keeps its lists, and what it downloads, in `work`."""
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    own = {
        # The user that apt would run as cannot reach into a private directory.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Dir::Cache": str(work),
        "Dir::Cache::Archives": str(work / "archives"),
        "Dir::State": str(work),
        "Dir::State::Lists": str(work / "lists"),
        "Dir::State::status": str(work / "status"),
        **settings,
    }
    if sources is not None:
        (work / "sources.list").write_text(sources, encoding="utf-8")
        own["Dir::Etc::SourceList"] = str(work / "sources.list")
    return ["apt-get", *(f"--option={name}={value}" for name, value in own.items())]


def _mirror(of: Release) -> str:
    """Return the mirror of Debian that this machine's own sources name for the release."""
    for file in (_SOURCES / "sources.list", *sorted(_SOURCES.glob("sources.list.d/*"))):
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for uri, suites in _entries(text, deb822=file.suffix == ".sources"):
            # Others than Debian have suites of that name as well.
            if of.codename in suites and re.fullmatch(r"https?://.*/debian/?", uri):
                return uri.rstrip("/")
    return _MIRROR


def _entries(text: str, *, deb822: bool) -> list[tuple[str, list[str]]]:
    """Return each URI of a file of sources, with the suites that are got from there."""
    if not deb822:
        found = re.findall(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(?:.*\s)?main\b", text, re.M)
        return [(uri, [suite]) for uri, suite in found]
    entries = []
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", lines):
        fields = {key.lower(): value for key, value in re.findall(r"^(\S+):(.*)$", stanza, re.M)}
        wanted = "main" in fields.get("components", "").split()
        if wanted and fields.get("enabled", "yes").strip().lower() not in ("no", "false"):
            suites = fields.get("suites", "").split()
            entries += [(uri, suites) for uri in fields.get("uris", "").split()]
    return entries
