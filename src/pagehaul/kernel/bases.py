# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that the series is for: a directory of bases/ each, with its base.toml."""

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import debian
from pagehaul.paths import REPO

BASES = REPO / "bases"

# The base of everything that does not name another: mainline.
DEFAULT = "7.3"

_KERNEL_ORG = "https://cdn.kernel.org/pub/linux/kernel/v{major}.x/linux-{version}.tar.xz"
_KEYS = {"package": str, "tarball": str, "kernel_org": str, "backport_of": dict}


@dataclass(frozen=True)
class Base:
    """A kernel series such as "7.3".

    package is Debian's package of its source, tarball what that installs. backport_of is the
    release of Debian whose backports have the package, None where it is in the release itself.
    kernel_org is the version that is fetched where there is no apt. directory is that in bases/.
    """

    name: str
    package: str
    tarball: Path
    backport_of: debian.Release | None
    kernel_org: str
    directory: Path

    @property
    def suffix(self) -> str:
        """What tells its trees and logs from those of the default base: "-6.12", or nothing."""
        return "" if self.name == DEFAULT else f"-{self.name}"

    @property
    def patches(self) -> Path:
        """Directory of the hunks for its files: a diff for each patch, or a combined one."""
        return self.directory / "patches"

    def diff(self, patch: str) -> Path:
        """Return the file of the hunks of a patch; it need not exist."""
        return self.patches / f"{patch}.diff"

    def fragment(self, name: str) -> Path:
        """Return the file of its own options of a fragment of configs/; it need not exist."""
        return self.directory / "configs" / f"{name}.config"


def names() -> tuple[str, ...]:
    """Return the names of all bases, the default one first."""
    found = sorted(path.parent.name for path in BASES.glob("*/base.toml"))
    return (DEFAULT, *(name for name in found if name != DEFAULT))


@functools.cache
def get(name: str = DEFAULT) -> Base:
    """Return a base by its name; PagehaulError where there is none, or its base.toml is wrong."""
    return read(BASES / name)


def read(directory: Path) -> Base:
    """Return the base that a directory describes; raises PagehaulError as get()."""
    file = directory / "base.toml"
    try:
        with file.open("rb") as stream:
            values = tomllib.load(stream)
    except FileNotFoundError:
        raise PagehaulError(f"no base {directory.name}: use one of {', '.join(names())}") from None
    except tomllib.TOMLDecodeError as error:
        raise PagehaulError(f"{file}: {error}") from error
    if unknown := sorted(values.keys() - _KEYS.keys()):
        raise PagehaulError(f"{file}: {', '.join(unknown)} is not known")
    for key, kind in _KEYS.items():
        if key != "backport_of" and not isinstance(values.get(key), kind):
            raise PagehaulError(f"{file}: {key} is missing, or is not a string")
    if not re.fullmatch(rf"{re.escape(directory.name)}(\.\d+)?", values["kernel_org"]):
        raise PagehaulError(f"{file}: {values['kernel_org']} is not a version of {directory.name}")
    of = values.get("backport_of")
    try:
        release = None if of is None else debian.Release(of["number"], of["codename"])
    except KeyError as error:
        raise PagehaulError(f"{file}: backport_of needs a number and a codename") from error
    return Base(
        directory.name,
        values["package"],
        Path(values["tarball"]),
        release,
        values["kernel_org"],
        directory,
    )


def kernel_org(version: str) -> str:
    """Return where kernel.org has the source of a version."""
    return _KERNEL_ORG.format(major=version.partition(".")[0], version=version)
