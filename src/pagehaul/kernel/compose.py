# SPDX-License-Identifier: GPL-2.0-only
"""The series as patches: a commit for each of them, in a repository of what they touch."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import series, tree
from pagehaul.kernel.bases import Base
from pagehaul.kernel.series import OVERLAY, SERIES, Content, Patch

LATER = SERIES / "later"

# The author of the patches is the project, whoever sends them.
_AUTHOR = "Pagehaul developers"
_MAIL = "maintainers@pagehaul.invalid"
# The same patches, whoever makes them, and whenever.
_DATE = "2026-11-25T12:00:00Z"


@dataclass(frozen=True)
class Composed:
    """The repository of a series: where it is, and the commits, by the names of the patches."""

    where: Path
    commits: dict[str, str]

    def git(self, *words: str) -> str:
        """Return what a git command says there."""
        return _git(self.where, *words)

    def files(self, patch: str) -> list[str]:
        """Return the names of the files that a patch touches."""
        commit = self.commits[patch]
        return self.git("diff", "--name-only", f"{commit}~1", commit).split()

    def content(self, commit: str, name: str) -> bytes | None:
        """Return a file as it is after a commit; None where it is not there."""
        done = subprocess.run(
            ["git", "-C", self.where, "show", f"{commit}:{name}"], capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None


def message(patch: str) -> str:
    """Return the message of a patch: a line, an empty one, and the rest."""
    path = SERIES / f"{patch}.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PagehaulError(f"{path} is missing: a patch needs a message") from None
    subject, _, rest = text.partition("\n")
    if not subject or not rest.startswith("\n") or "\nSigned-off-by: " not in rest:
        raise PagehaulError(f"{path}: a line, an empty line, text, and who has signed it off")
    return text


def growth(patches: Sequence[Patch], work: Path) -> list[dict[str, bytes]]:
    """Return the new files that each of `patches` leaves, in the form that they have after it.

    A file that changes in a later patch is what is left of its final form when the hunks of that
    patch are taken back. work is an empty directory. Raises PagehaulError where they are not there.
    """
    for patch in patches:
        for name in patch.files:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(OVERLAY / name, work / name)
    found: list[dict[str, bytes]] = []
    for number, patch in reversed(list(enumerate(patches))):
        there = [name for each in patches[: number + 1] for name in each.files]
        found.insert(0, {name: (work / name).read_bytes() for name in there})
        for name in patch.files:
            (work / name).unlink()
        later = LATER / f"{patch.name}.diff"
        if later.exists():
            tree.apply(later, work, "--reverse")
    return found


def compose(base: Base, pristine: Path, parts: Iterable[str], where: Path) -> Composed:
    """Make the repository `where`, an empty directory, of some parts of the series on a base.

    Its first commit has the pristine files. All new files of a part come from the whole series.
    Raises PagehaulError where a patch does not apply, or the last commit is not what
    `tree.prepare` makes of the same parts.
    """
    tools.require("git")
    everything = series.load().patches
    chosen = series.load().chosen(base, parts)
    with _directory(where.with_name(f"{where.name}.growth")) as work:
        names = [patch.name for patch in everything]
        after = dict(zip(names, growth(everything, work), strict=True))
    _git(where, "init", "--quiet", "--initial-branch=series")
    content = series.content(base, list(parts))
    touched = {str(name) for diff in content.diffs for name in tree.patched_files(diff)}
    for name in sorted(touched):
        if (pristine / name).exists():
            _write(where / name, (pristine / name).read_bytes())
    _commit(where, f"Linux {base.name}\n")
    commits: dict[str, str] = {}
    new: set[str] = set()
    last: dict[str, bytes] = {}
    for patch in chosen:
        new |= set(patch.files)
        now = {name: data for name, data in after[patch.name].items() if name in new}
        for name, data in now.items():
            if last.get(name) != data:
                _write(where / name, data)
        last = now
        if base.diff(patch.name).exists():
            tree.apply(base.diff(patch.name), where)
        commits[patch.name] = _commit(where, message(patch.name))
    _check(where, pristine, content)
    return Composed(where, commits)


def _check(where: Path, pristine: Path, content: Content) -> None:
    """Raise PagehaulError unless the files in `where` are those of the tree."""
    with _directory(where.with_name(f"{where.name}.tree")) as staging:
        tree.stage(pristine, content, staging)
        names = {str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file()}
        listed = set(_git(where, "ls-files").split())
        for name in sorted(names | listed):
            paths = [top / name for top in (where, staging)]
            if not all(path.exists() for path in paths) or (
                paths[0].read_bytes() != paths[1].read_bytes()
            ):
                raise PagehaulError(
                    f"{name}: the patches one by one do not make the file that they are to make; "
                    f"a diff in {LATER} lacks something, or has too much"
                )


class _directory:
    """A directory that is there for a block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Path:
        self._path.mkdir()
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _commit(where: Path, text: str) -> str:
    _git(where, "add", "--all", "--force")
    _git(where, "commit", "--quiet", "--allow-empty", "--file=-", text=text)
    return _git(where, "rev-parse", "HEAD").strip()


def _git(where: Path, *words: str, text: str | None = None) -> str:
    names = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", _AUTHOR), ("EMAIL", _MAIL), ("DATE", _DATE))
    }
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", where, *words],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **names, **quiet},
    )
    if done.returncode:
        raise PagehaulError(f"git {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
