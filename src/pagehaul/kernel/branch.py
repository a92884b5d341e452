# SPDX-License-Identifier: GPL-2.0-only
"""The series as a branch of git, to be edited there: made here, read by absorb.py.

A note at each commit says PART/NAME of the patch. git takes notes along when a commit is amended,
reordered or reworded, and joins those of commits that are squashed. They are in no mail.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel import compose, git, series
from pagehaul.kernel.bases import Base
from pagehaul.kernel.git import Repository
from pagehaul.paths import REPO

_NOTES = "refs/notes/pagehaul"
# A commit with the cover letter that b4 sends, and what it begins its own figures with.
_B4 = "--- b4-submit-tracking ---"

# Files by their names in the kernel: what they were and are, None where there was or is none.
Changes = Mapping[str, tuple[bytes | None, bytes | None]]


@dataclass(frozen=True)
class Commit:
    """A commit of a branch: part and name in its note, or "", its message, what it changes."""

    part: str
    name: str
    message: str
    changes: Changes

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


def branch_of(base: Base) -> str:
    """Return the name of the branch for a base."""
    return f"pagehaul-{base.name}"


def start_of(base: Base) -> str:
    """Return the tag of the commit that the branch for a base is on."""
    return f"{branch_of(base)}-base"


def make(base: Base, pristine: Path, where: Path) -> str:
    """Make a branch of the whole series, check it out, and return its name.

    where is a clone of the kernel with that kernel checked out, or is to be a new repository of
    what the series touches. Raises PagehaulError where it is neither, or git has no identity.
    """
    pieces = series.load()
    names = compose.touched(pieces.content(base, pieces.parts))
    name, start = branch_of(base), start_of(base)
    if where.exists() and any(where.iterdir()):
        repository = Repository(where, git.identity(where))
        _be_clean(repository)
        for there in (name, start):
            if repository.has(there):
                raise PagehaulError(
                    f"{where} has {there} already: git branch -D {name}; git tag -d {start}"
                )
        _be_pristine(repository, "HEAD", pristine, names)
    else:
        repository = Repository(where, git.identity(REPO))
        where.mkdir(parents=True, exist_ok=True)
        repository.git("init", "--quiet", "--initial-branch=linux")
        author, _, mail = repository.who.rstrip(">").rpartition(" <")
        repository.git("config", "user.name", author)
        repository.git("config", "user.email", mail)
        compose.put_pristine(repository, base, pristine, names)
    repository.git("tag", start)
    repository.git("checkout", "--quiet", "-b", name)
    repository.git("config", "notes.rewriteRef", _NOTES)
    done = compose.commit_all(repository, pieces, base, pristine, pieces.parts)
    for patch in pieces.chosen(base, pieces.parts):
        note, commit = f"{patch.part}/{patch.name}", done.commits[patch.name]
        repository.git("notes", f"--ref={_NOTES}", "add", "--force", "-m", note, commit)
    return name


def read(base: Base, pristine: Path, where: Path) -> list[Commit]:
    """Return the commits of the branch that is checked out, oldest first.

    A file of the kernel that a new repository does not have may come whole with a commit. Raises
    PagehaulError where they are not on the kernel, or not all of it is committed.
    """
    repository, start = Repository(where, compose.SIGNER), start_of(base)
    if not where.is_dir() or not repository.has(start):
        raise PagehaulError(
            f"{where} has no tag {start}: give a repository of `series --base {base.name} --branch`"
        )
    _be_clean(repository)
    if repository.git("merge-base", start, "HEAD").strip() != _commit(repository, start):
        raise PagehaulError(f"the branch is not on {start}: git rebase, or move the tag")
    fields = "%H%x00%P%x00%N%x00%B%x01"
    log = repository.git(
        "log", "--reverse", f"--notes={_NOTES}", f"--format={fields}", f"{start}..HEAD"
    )
    found = []
    for entry in log.split("\x01")[:-1]:
        commit, parents, note, text = entry.lstrip("\n").split("\0")
        if _B4 in text:
            continue
        if len(parents.split()) != 1:
            subject = text.partition("\n")[0]
            raise PagehaulError(f"{subject!r} is a merge: make a line of it by git rebase")
        changes = _changes(repository, parents, commit, pristine)
        _be_pristine(repository, start, pristine, changes)
        part, _, name = note.strip().partition("\n")[0].rpartition("/")
        found.append(Commit(part, name, text.strip() + "\n", changes))
    return found


def _changes(repository: Repository, before: str, commit: str, pristine: Path) -> Changes:
    subject = repr(repository.git("log", "-1", "--format=%s", commit).strip())
    listed = repository.git("diff", "--raw", "--no-renames", "-z", before, commit).split("\0")[:-1]
    changes = {}
    for entry, name in zip(listed[::2], listed[1::2], strict=True):
        old, new, _, _, kind = entry.lstrip(":").split()
        if kind == "D":
            raise PagehaulError(f"{subject} removes {name}: a patch may only change or add files")
        if new not in (old, "100644"):
            raise PagehaulError(f"{subject} gives {name} the mode {new}: make it 100644")
        was = repository.content(before, name)
        if was is None and (pristine / name).exists():
            was = (pristine / name).read_bytes()
        changes[name] = (was, repository.content(commit, name))
    if not changes:
        raise PagehaulError(f"{subject} changes nothing: drop it by git rebase --interactive")
    return changes


def _be_clean(repository: Repository) -> None:
    if repository.git("status", "--porcelain", "--untracked-files=no").strip():
        raise PagehaulError(f"{repository.where} has changes that are not committed: commit them")
    for way in ("rebase-merge", "rebase-apply"):
        if (repository.where / repository.git("rev-parse", "--git-path", way).strip()).exists():
            raise PagehaulError(f"{repository.where} is in the middle of a rebase: finish it")


def _be_pristine(repository: Repository, commit: str, pristine: Path, names: Iterable[str]) -> None:
    for name in names:
        path = pristine / name
        found = repository.content(commit, name)
        if found is not None and (not path.exists() or found != path.read_bytes()):
            raise PagehaulError(
                f"{name} at {commit} of {repository.where} is not that of {pristine.name}: "
                "check out that kernel, or name its source by --source"
            )


def _commit(repository: Repository, name: str) -> str:
    return repository.git("rev-parse", f"{name}^{{commit}}").strip()
