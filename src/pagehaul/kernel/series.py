# SPDX-License-Identifier: GPL-2.0-only
"""What the series is made of: series/series.toml, kernel/ and the hunks of a base.

A patch brings new files, which kernel/ has in their final form for every base, and hunks for the
files that a base has. Where it changes a new file that an earlier patch has brought,
series/later/PATCH.diff has these hunks: without them the file is what it was before.

A base may have all hunks in one diff instead. It then has one patch for the whole series, but for
those that are laid on top of kernels for tests.
"""

import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel.bases import Base
from pagehaul.paths import REPO

# Parts that are for tests alone.
EXPERIMENTS = "experiments"
TEST_HOOKS = "test-hooks"
# Parts that are laid on top of all others. Their hunks in files of the others are those of a base.
ON_TOP = (EXPERIMENTS, TEST_HOOKS)
# Parts that are not sent to anybody, but when somebody asks for them.
APART = ("tests", *ON_TOP)
# Parts of which benchmarks have kernels, with those before them.
UP_TO = ("batches", "helpers", "requests", "large")
# The patch, and the part, that has all of the others on a base with one diff.
COMBINED = "combined"


@dataclass(frozen=True)
class Patch:
    """A patch: its name, its part, and the new files that come with it, relative to the kernel."""

    name: str
    part: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """The titles of the parts, by their names, and the patches, in their order.

    root is the directory with kernel/ and series/.
    """

    parts: dict[str, str]
    patches: tuple[Patch, ...]
    root: Path = REPO

    @property
    def file(self) -> Path:
        """The file that lists parts and patches."""
        return self.root / "series/series.toml"

    @property
    def overlay(self) -> Path:
        """Directory of the new files."""
        return self.root / "kernel"

    def text(self, patch: str) -> Path:
        """Return the file of the message of a patch."""
        return self.root / f"series/{patch}.txt"

    def later(self, patch: str) -> Path:
        """Return the diff of a patch to new files of earlier patches; it may be missing."""
        return self.root / f"series/later/{patch}.diff"

    def main(self) -> list[Patch]:
        """Return the patches that all others are laid on top of."""
        return [patch for patch in self.patches if patch.part not in ON_TOP]

    def chosen(self, base: Base, parts: Iterable[str]) -> list[Patch]:
        """Return the patches of some parts that exist for a base, in their order."""
        wanted = set(parts)
        found = [
            patch
            for patch in self.patches
            if patch.part in wanted
            and (patch.files or base.diff(patch.name).exists() or self.later(patch.name).exists())
        ]
        if not base.diff(COMBINED).exists():
            return found
        files = tuple(name for patch in self.main() for name in patch.files)
        below = [] if wanted <= set(ON_TOP) else [Patch(COMBINED, COMBINED, files)]
        return below + [patch for patch in found if patch.part in ON_TOP]

    def content(self, base: Base, parts: Iterable[str]) -> "Content":
        """Return what is laid over a base for some parts."""
        patches = self.chosen(base, parts)
        files = {name: self.overlay / name for patch in patches for name in patch.files}
        diffs = [base.diff(patch.name) for patch in patches]
        return Content(files, tuple(diff for diff in diffs if diff.exists()))


@dataclass(frozen=True)
class Content:
    """What is laid over a pristine kernel: new files by their names there, then diffs, in order."""

    files: dict[str, Path]
    diffs: tuple[Path, ...]


def _new_files(overlay: Path) -> list[str]:
    return [
        str(path.relative_to(overlay))
        for path in sorted(overlay.rglob("*"))
        if path.is_file() and not path.name.endswith(("~", ".o", ".orig", ".rej"))
    ]


def read(root: Path) -> Series:
    """Return the series whose pieces are in a directory.

    Raises PagehaulError where it is wrong, or a new file does not belong to exactly one patch.
    """
    pieces = Series({}, (), root)
    file, overlay = pieces.file, pieces.overlay
    try:
        with file.open("rb") as stream:
            values = tomllib.load(stream)
        parts = {part["name"]: part["title"] for part in values["part"]}
        entries = [
            (patch["name"], patch["part"], patch.get("files", [])) for patch in values["patch"]
        ]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise PagehaulError(f"{file}: {error}") from error
    owner: dict[str, str] = {}
    patches = []
    for name, part, patterns in entries:
        if part not in parts:
            raise PagehaulError(f"{file}: {name} is in {part}, which is no part")
        found: list[str] = []
        for pattern in patterns:
            matched = [path for path in sorted(overlay.glob(pattern)) if path.is_file()]
            if not matched:
                raise PagehaulError(f"{file}: {name} has {pattern}, but there is no such file")
            found += [str(path.relative_to(overlay)) for path in matched]
        for each in found:
            if each in owner:
                raise PagehaulError(f"{file}: {each} comes with {owner[each]} and with {name}")
            owner[each] = name
        patches.append(Patch(name, part, tuple(found)))
    if stray := [each for each in _new_files(overlay) if each not in owner]:
        raise PagehaulError(f"{file}: no patch brings {', '.join(stray)}")
    return replace(pieces, parts=parts, patches=tuple(patches))


@functools.cache
def load() -> Series:
    """Return the series of the repository."""
    return read(REPO)


def parts_of(variant: str) -> tuple[str, ...]:
    """Return the parts that the kernel of a variant has, see build.VARIANTS; none for vanilla."""
    variant = variant.removeprefix("bench-")
    if variant == "vanilla":
        return ()
    names = list(load().parts)
    if variant in UP_TO:
        return tuple(names[: names.index(variant) + 1])
    leave = set()
    if variant not in ("pcp-compound", "debug-pcp-compound"):
        leave.add(EXPERIMENTS)
    if variant in ("pagehaul", "pcp-compound"):
        leave.add(TEST_HOOKS)
    return tuple(part for part in names if part not in leave)


def content(base: Base, parts: Iterable[str]) -> Content:
    """Return what is laid over a base for some parts of the series."""
    return load().content(base, parts)
