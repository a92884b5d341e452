# SPDX-License-Identifier: GPL-2.0-only
"""An edited branch of the series, taken apart into kernel/, bases/ and series/ again.

Of the default base all pieces are made from the branch. The branch of another base has its own
hunks only: new files, messages and the order are those of the default base.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, branch, compose, git, series
from pagehaul.kernel.bases import Base
from pagehaul.kernel.branch import Changes, Commit
from pagehaul.kernel.git import Repository
from pagehaul.kernel.series import COMBINED, ON_TOP, Patch, Series

# A name made of a subject has no more words than this.
_WORDS = 4

# Diffs are the same whatever the user's git is set to.
_DIFF = (
    "diff",
    "--no-index",
    "--no-prefix",
    "--no-ext-diff",
    "--no-color",
    "--no-renames",
    "--unified=3",
    "--diff-algorithm=myers",
    "--indent-heuristic",
)

# What pieces are to be, by their paths below the root; None for one that is to go.
Pieces = dict[str, bytes | None]


@dataclass(frozen=True)
class Step:
    """A commit that has the name and the part of a patch."""

    name: str
    part: str
    commit: Commit


def absorb(base: Base, pristine: Path, where: Path) -> list[str]:
    """Take a branch that branch.make() has made into the pieces; return a line for each change.

    Raises PagehaulError, and changes nothing, where what it would write does not make the branch.
    """
    pieces = series.load()
    commits = branch.read(base, pristine, where)
    who = git.identity(where)
    if base.name == bases.DEFAULT:
        steps = _named(pieces, base, commits, who)
        wanted = _whole(pieces, base, pristine, steps, who)
    else:
        steps = _combined(pieces, base, commits, who)
        wanted = _hunks_of(pieces, base, pristine, steps)
    root = pieces.root
    changed = {
        name: data
        for name, data in wanted.items()
        if data != ((root / name).read_bytes() if (root / name).exists() else None)
    }
    _verify(pieces, base, pristine, steps, changed)
    _write(root, changed)
    return [
        f"{'removed' if data is None else 'written'} {name}"
        for name, data in sorted(changed.items())
    ]


def _named(pieces: Series, base: Base, commits: Sequence[Commit], who: str) -> list[Step]:
    """Name commits: by their notes, by a subject that is known, or else by a new subject."""
    known = {patch.name: patch.part for patch in pieces.patches}
    subjects = {
        compose.message(pieces, patch.name).partition("\n")[0]: patch.name
        for patch in pieces.chosen(base, pieces.parts)
    }
    names: list[str] = []
    noted = {commit.name for commit in commits}
    for commit in commits:
        name = commit.name
        if not name and subjects.get(commit.subject) not in noted:
            name = subjects.get(commit.subject, "")
        if not name or name in names:
            name = _name_of(commit.subject, {*known, *noted, *names})
        names.append(name)
    steps: list[Step] = []
    for place, (name, commit) in enumerate(zip(names, commits, strict=True)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            raise PagehaulError(f"{name!r}, the note of {commit.subject!r}, cannot name a patch")
        before = [step.part for step in steps[-1:]]
        after = [known[each] for each in names[place:] if each in known]
        part = commit.part or known.get(name) or (before + after + [next(iter(pieces.parts))])[0]
        if part not in pieces.parts:
            raise PagehaulError(f"{part}, in the note of {commit.subject!r}, is no part")
        if before and before[0] in ON_TOP and part not in ON_TOP:
            raise PagehaulError(f"{name} is behind {steps[-1].name}, which must be on top: move it")
        _signed(commit, who)
        steps.append(Step(name, part, commit))
    return steps


def _name_of(subject: str, taken: Iterable[str]) -> str:
    """Return a new name for a patch: the first words of its subject, but for the area."""
    words = re.findall(r"[a-z0-9]+", subject.rpartition(": ")[2].lower())[:_WORDS]
    name = "-".join(words) or "patch"
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in set(taken):
        number += 1
    return found


def _signed(commit: Commit, who: str) -> str:
    """Return a message as it is kept: what the user has signed is signed by the project."""
    _, _, rest = commit.message.partition("\n")
    if not rest.startswith("\n") or "\nSigned-off-by: " not in rest:
        raise PagehaulError(
            f"{commit.subject!r} needs a line, an empty line, text, and who signs it: "
            "git commit --amend --signoff"
        )
    return commit.message.replace(f"Signed-off-by: {who}\n", f"Signed-off-by: {compose.SIGNER}\n")


def _combined(pieces: Series, base: Base, commits: Sequence[Commit], who: str) -> list[Step]:
    """Return the steps of a base with one diff: all that is below, and what is laid on top."""
    parts = {patch.name: patch.part for patch in pieces.patches}
    on_top = [place for place, each in enumerate(commits) if parts.get(each.name) in ON_TOP]
    split = on_top[0] if on_top else len(commits)
    changes: dict[str, tuple[bytes | None, bytes | None]] = {}
    for commit in commits[:split]:
        for name, (before, after) in commit.changes.items():
            changes[name] = (changes.get(name, (before,))[0], after)
    text = compose.message(pieces, COMBINED, who)
    steps = [Step(COMBINED, COMBINED, Commit(COMBINED, COMBINED, text, changes))]
    for commit in commits[split:]:
        if parts.get(commit.name) not in ON_TOP:
            raise PagehaulError(f"{commit.subject!r} is no patch of {bases.DEFAULT}: squash it")
        steps.append(Step(commit.name, parts[commit.name], commit))
    return steps


def _whole(pieces: Series, base: Base, pristine: Path, steps: Sequence[Step], who: str) -> Pieces:
    """Return all pieces that steps on the default base make."""
    wanted: Pieces = {}
    final: dict[str, bytes | None] = {}
    files: dict[str, list[str]] = {step.name: [] for step in steps}
    for step in steps:
        hunks, later = {}, {}
        for name, (before, after) in step.commit.changes.items():
            if (pristine / name).exists() or (name in final and step.part in ON_TOP):
                hunks[name] = (before, after)
                continue
            if name in final:
                later[name] = (before, after)
            else:
                files[step.name].append(name)
            final[name] = after
        wanted[_below(pieces, base.diff(step.name))] = _diff(base.diff(step.name), hunks)
        path = pieces.later(step.name)
        wanted[_below(pieces, path)] = _diff(path, later)
        wanted[_below(pieces, pieces.text(step.name))] = _text(
            pieces.text(step.name), _signed(step.commit, who)
        )
    for name, data in final.items():
        wanted[f"kernel/{name}"] = data
    chosen = pieces.chosen(base, pieces.parts)
    for patch in chosen:
        for name in patch.files:
            wanted.setdefault(f"kernel/{name}", None)
        if patch.name not in files:
            hooks = pieces.root.glob(f"bases/*/patches/{patch.name}.diff")
            for path in (*hooks, pieces.later(patch.name), pieces.text(patch.name)):
                wanted[_below(pieces, path)] = None
    elsewhere = [patch.name for patch in pieces.patches if patch not in chosen]
    wanted["series/series.toml"] = _listed(pieces, steps, files, elsewhere).encode()
    return wanted


def _hunks_of(pieces: Series, base: Base, pristine: Path, steps: Sequence[Step]) -> Pieces:
    """Return the diffs that steps on another base make; new files stay as they are."""
    wanted: Pieces = {_below(pieces, path): None for path in base.patches.glob("*.diff")}
    owned = {patch.name: patch.files for patch in pieces.patches}
    owned[COMBINED] = tuple(name for patch in pieces.main() for name in patch.files)
    for step in steps:
        changes = dict(step.commit.changes)
        for name in owned[step.name]:
            data = (pieces.overlay / name).read_bytes()
            changes[name] = (data, changes.get(name, (None, None))[1])
            if changes[name][1] is None:
                raise PagehaulError(
                    f"{base.name} lacks {name}, which {step.name} brings: put it back"
                )
        path = base.diff(step.name)
        wanted[_below(pieces, path)] = _diff(path, changes)
    return wanted


def _below(pieces: Series, path: Path) -> str:
    return str(path.relative_to(pieces.root))


def _text(path: Path, text: str) -> bytes:
    """Return a message; that of the file if it says the same."""
    old = path.read_bytes() if path.exists() else b""
    return old if old.decode().strip() == text.strip() else text.encode()


def _diff(path: Path, changes: Changes) -> bytes | None:
    """Return the diff of files, None if they do not change; that of the file if it is the same."""
    with TemporaryDirectory(prefix="diff-") as directory:
        top = Path(directory)
        for side in ("a", "b"):
            (top / side).mkdir()
        for name, both in changes.items():
            for side, data in zip(("a", "b"), both, strict=True):
                if data is not None and both[0] != both[1]:
                    (top / side / name).parent.mkdir(parents=True, exist_ok=True)
                    (top / side / name).write_bytes(data)
        # The headers of hunks name functions as git knows them in C.
        (top / "attributes").write_text("*.c diff=cpp\n*.h diff=cpp\n", encoding="utf-8")
        done = subprocess.run(
            ["git", "-c", f"core.attributesFile={top / 'attributes'}", *_DIFF, "a", "b"],
            cwd=top,
            capture_output=True,
            check=False,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        )
    if done.returncode not in (0, 1):
        raise PagehaulError(f"git diff: {done.stderr.decode(errors='replace').strip()}")
    if b"\nBinary files " in done.stdout:
        raise PagehaulError(f"{path.stem} changes a file that is no text: leave that out")
    # Hashes would change with each patch before it.
    new = re.sub(rb"^index .*\n", b"", done.stdout, flags=re.MULTILINE)
    old = path.read_bytes() if path.exists() else b""
    return (old if _hunks(old) == _hunks(new) else new) or None


def _hunks(diff: bytes) -> bytes:
    """Return of a diff what it does: without hashes, and functions in the headers of hunks."""
    diff = re.sub(rb"^index .*\n", b"", diff, flags=re.MULTILINE)
    return re.sub(rb"^(@@ .*? @@).*", rb"\1", diff, flags=re.MULTILINE)


def _listed(
    pieces: Series,
    steps: Sequence[Step],
    files: Mapping[str, Sequence[str]],
    elsewhere: Sequence[str],
) -> str:
    """Return series.toml with the patches in their order; `elsewhere` are not on this base."""
    text = pieces.file.read_text("utf-8")
    # An entry begins with the comment above it.
    begins = [found.start() for found in re.finditer(r"^(?:#.*\n)*\[\[patch\]\]$", text, re.M)]
    entries = [text[one:other] for one, other in pairwise([*begins, len(text)])]
    head = text[: begins[0]]
    old = dict(zip((patch.name for patch in pieces.patches), entries, strict=True))
    known = {patch.name: patch for patch in pieces.patches}
    order = []
    for step in steps:
        patch = Patch(step.name, step.part, tuple(sorted(files[step.name])))
        others = [each for name in files.keys() - {step.name} for each in files[name]]
        order.append((step.name, _entry(patch, old.get(step.name, ""), others)))
    for name in elsewhere:
        before = list(known)[: list(known).index(name)]
        places = [place for place, (each, _) in enumerate(order, 1) if each in before]
        order.insert(max(places, default=0), (name, old[name]))
    return head + "\n\n".join(text.strip() for _, text in order) + "\n"


def _entry(patch: Patch, old: str, others: Sequence[str]) -> str:
    """Return the entry of a patch: the old one, if that says the same; `others` are not its files.

    Patterns of the old one stay if they name files of the patch alone.
    """
    listed = re.findall(r'"([^"]*)"', old.partition("files = ")[2])
    patterns = [
        each
        for each in listed
        if "*" in each and _matching(each, patch.files) and not _matching(each, others)
    ]
    left = [name for name in patch.files if not any(_matching(each, [name]) for each in patterns)]
    lines = sorted([*patterns, *left])
    if f'part = "{patch.part}"\n' in old and lines == sorted(listed):
        return old
    text = f'{old.partition("[[")[0]}[[patch]]\nname = "{patch.name}"\npart = "{patch.part}"\n'
    if len(lines) == 1:
        text += f'files = ["{lines[0]}"]\n'
    elif lines:
        text += "files = [\n" + "".join(f'    "{line}",\n' for line in lines) + "]\n"
    return text


def _matching(pattern: str, names: Iterable[str]) -> bool:
    parts = len(PurePath(pattern).parts)
    return any(
        PurePath(name).match(pattern) and len(PurePath(name).parts) == parts for name in names
    )


def _verify(
    pieces: Series, base: Base, pristine: Path, steps: Sequence[Step], changed: Pieces
) -> None:
    """Raise PagehaulError unless pieces with some changed ones make what the steps are."""
    with TemporaryDirectory(prefix="absorb-") as directory:
        root, where = Path(directory) / "pieces", Path(directory) / "repository"
        for each in ("kernel", "series", f"bases/{base.directory.name}"):
            if (pieces.root / each).exists():
                shutil.copytree(pieces.root / each, root / each)
        _write(root, changed)
        tried = replace(base, directory=root / "bases" / base.directory.name)
        found = series.read(root)
        where.mkdir()
        repository = Repository(where, compose.SIGNER)
        repository.git("init", "--quiet")
        compose.put_pristine(
            repository, base, pristine, compose.touched(found.content(tried, found.parts))
        )
        done = compose.commit_all(repository, found, tried, pristine, found.parts)
        if list(done.commits) != [step.name for step in steps]:
            raise PagehaulError(
                f"these would be other patches: {', '.join(done.commits)}; nothing was changed"
            )
        for step in steps:
            commit = done.commits[step.name]
            for name in sorted({*done.files(step.name), *step.commit.changes}):
                after = step.commit.changes.get(name, (None, None))[1]
                if done.content(commit, name) != after:
                    raise PagehaulError(
                        f"{step.name}: its hunks of {name} do not fit into what the patches before "
                        "it leave; nothing was changed"
                    )


def _write(root: Path, changed: Pieces) -> None:
    for name, data in changed.items():
        path = root / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
