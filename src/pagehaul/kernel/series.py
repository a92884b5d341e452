# SPDX-License-Identifier: GPL-2.0-only
"""What the series is made of: series/series.toml, kernel/ and the hunks of a base.

A patch brings new files, which kernel/ has in their final form for every base, and hunks for the
files that a base has. Where it changes a new file that an earlier patch has brought,
series/later/PATCH.diff has these hunks: without them the file is what it was before.
"""

import functools
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel.bases import Base
from pagehaul.paths import REPO

SERIES = REPO / "series"
OVERLAY = REPO / "kernel"

# Parts that are for tests alone.
EXPERIMENTS = "experiments"
TEST_HOOKS = "test-hooks"
# Parts that are not sent to anybody, but when somebody asks for them.
APART = ("tests", EXPERIMENTS, TEST_HOOKS)


@dataclass(frozen=True)
class Patch:
    """A patch: its name, its part, and the new files that come with it, relative to the kernel."""

    name: str
    part: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """The titles of the parts, by their names, and the patches, in their order."""

    parts: dict[str, str]
    patches: tuple[Patch, ...]

    def chosen(self, base: Base, parts: Iterable[str]) -> list[Patch]:
        """Return the patches of some parts that exist for a base, in their order."""
        wanted = set(parts)
        return [
            patch
            for patch in self.patches
            if patch.part in wanted and (patch.files or base.diff(patch.name).exists())
        ]


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


def read(file: Path, overlay: Path) -> Series:
    """Return the series that a series.toml describes.

    Raises PagehaulError where it is wrong, or a new file does not belong to exactly one patch.
    """
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
    return Series(parts, tuple(patches))


@functools.cache
def load() -> Series:
    """Return the series of the repository."""
    return read(SERIES / "series.toml", OVERLAY)


def parts_of(variant: str) -> tuple[str, ...]:
    """Return the parts that the kernel of a variant has, see build.VARIANTS; none for vanilla."""
    if variant == "vanilla":
        return ()
    leave = set()
    if variant not in ("pcp-compound", "debug-pcp-compound"):
        leave.add(EXPERIMENTS)
    if variant in ("pagehaul", "pcp-compound"):
        leave.add(TEST_HOOKS)
    return tuple(part for part in load().parts if part not in leave)


def content(base: Base, parts: Sequence[str]) -> Content:
    """Return what is laid over a base for some parts of the series."""
    patches = load().chosen(base, parts)
    files = {name: OVERLAY / name for patch in patches for name in patch.files}
    diffs = [base.diff(patch.name) for patch in patches]
    return Content(files, tuple(diff for diff in diffs if diff.exists()))
