# SPDX-License-Identifier: GPL-2.0-only
"""The series as patches: a commit for each of them, in a repository of what they touch."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import series, source, tree
from pagehaul.kernel.bases import Base
from pagehaul.kernel.git import Repository
from pagehaul.kernel.series import COMBINED, Content, Series

# The signer in the files of the series, which the sender's name replaces.
SIGNER = "Pagehaul developers <maintainers@pagehaul.invalid>"


@dataclass(frozen=True)
class Composed(Repository):
    """The repository of a series, with the commits by the names of the patches."""

    commits: dict[str, str]

    def files(self, patch: str) -> list[str]:
        """Return the names of the files that a patch touches."""
        commit = self.commits[patch]
        return self.git("diff", "--name-only", f"{commit}~1", commit).split()


def message(pieces: Series, patch: str, who: str = SIGNER) -> str:
    """Return the message of a patch: a line, an empty one, and the rest, signed by `who`."""
    path = pieces.text(patch)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PagehaulError(f"{path} is missing: a patch needs a message") from None
    subject, _, rest = text.partition("\n")
    if not subject or not rest.startswith("\n") or "\nSigned-off-by: " not in rest:
        raise PagehaulError(f"{path}: a line, an empty line, text, and who has signed it off")
    return text.replace(f"Signed-off-by: {SIGNER}\n", f"Signed-off-by: {who}\n")


def growth(pieces: Series, work: Path) -> dict[str, dict[str, bytes]]:
    """Return the new files that each patch leaves, in the form that they have after it.

    A file that changes in a later patch is what is left of its final form when the hunks of that
    patch are taken back. work is an empty directory. Raises PagehaulError where they are not there.
    """
    for patch in pieces.patches:
        for name in patch.files:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pieces.overlay / name, work / name)
    found: dict[str, dict[str, bytes]] = {}
    for number, patch in reversed(list(enumerate(pieces.patches))):
        there = [name for each in pieces.patches[: number + 1] for name in each.files]
        found[patch.name] = {name: (work / name).read_bytes() for name in there}
        for name in patch.files:
            (work / name).unlink()
        if pieces.later(patch.name).exists():
            tree.apply(pieces.later(patch.name), work, "--reverse")
    found[COMBINED] = found[pieces.main()[-1].name]
    return found


def prepare_up_to(
    part: str, base: Base, label: str, *, source_of: str | None = None, built: Path | None = None
) -> Path:
    """Return the tree `label` with the parts of the series up to one, see tree.prepare_variant.

    Raises PagehaulError as that does, and for a base that has all parts in one diff.
    """
    pieces = series.load()
    if base.diff(COMBINED).exists():
        raise PagehaulError(f"the series for {base.name} is not in parts: use another base")
    parts = series.parts_of(part)
    content = pieces.content(base, parts)
    last = pieces.chosen(base, parts)[-1].name
    pristine = source.ensure(base, source_of)

    def fill(staging: Path) -> None:
        tree.stage(pristine, content, staging)
        with TemporaryDirectory(prefix="growth-") as work:
            for name, data in growth(pieces, Path(work))[last].items():
                _write(staging / name, data)

    return tree.prepare_with(f"{label}{base.suffix}", pristine, fill, built=built)


def touched(content: Content) -> list[str]:
    """Return the names of all files that are not as in a pristine kernel."""
    hooked = {str(name) for diff in content.diffs for name in tree.patched_files(diff)}
    return sorted(hooked | set(content.files))


def compose(
    base: Base,
    pristine: Path,
    parts: Iterable[str],
    where: Path,
    who: str = SIGNER,
    also: Iterable[str] = (),
) -> Composed:
    """Make the repository `where`, an empty directory, of some parts of the series on a base.

    Its first commit has the pristine files; `also` names more of these. All new files of a part
    come from the whole series. Raises PagehaulError as commit_all().
    """
    tools.require("git")
    pieces = series.load()
    repository = Repository(where, who)
    repository.git("init", "--quiet", "--initial-branch=series")
    put_pristine(repository, base, pristine, {*touched(pieces.content(base, parts)), *also})
    return commit_all(repository, pieces, base, pristine, parts)


def put_pristine(repository: Repository, base: Base, pristine: Path, names: Iterable[str]) -> None:
    """Make the first commit of a repository: those of some files that the kernel has."""
    there = sorted(name for name in names if (pristine / name).exists())
    for name in there:
        _write(repository.where / name, (pristine / name).read_bytes())
    repository.commit(f"Linux {base.name}\n", there)


def commit_all(
    repository: Repository, pieces: Series, base: Base, pristine: Path, parts: Iterable[str]
) -> Composed:
    """Commit the patches of some parts on top of the last commit of a repository.

    Raises PagehaulError where a patch does not apply, or the last commit is not what
    `tree.prepare` makes of the same parts.
    """
    parts = list(parts)
    where = repository.where
    with TemporaryDirectory(prefix="growth-") as work:
        after = growth(pieces, Path(work))
    commits: dict[str, str] = {}
    new: set[str] = set()
    last: dict[str, bytes] = {}
    for patch in pieces.chosen(base, parts):
        new |= set(patch.files)
        now = {name: data for name, data in after[patch.name].items() if name in new}
        written = {name for name, data in now.items() if last.get(name) != data}
        for name in written:
            _write(where / name, now[name])
        last = now
        diff = base.diff(patch.name)
        if diff.exists():
            tree.apply(diff, where)
            written |= set(map(str, tree.patched_files(diff)))
        text = message(pieces, patch.name, repository.who)
        commits[patch.name] = repository.commit(text, sorted(written))
    composed = Composed(where, repository.who, commits)
    if commits:
        _check(composed, pristine, pieces.content(base, parts))
    return composed


def _check(composed: Composed, pristine: Path, content: Content) -> None:
    """Raise PagehaulError unless what the patches touch is as in the tree."""
    first = next(iter(composed.commits.values()))
    listed = composed.git("diff", "--name-only", f"{first}~1", "HEAD").split()
    with TemporaryDirectory(prefix="tree-") as directory:
        staging = Path(directory)
        tree.stage(pristine, content, staging)
        names = {str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file()}
        for name in sorted(names | set(listed)):
            paths = [top / name for top in (composed.where, staging)]
            if not all(path.exists() for path in paths) or (
                paths[0].read_bytes() != paths[1].read_bytes()
            ):
                raise PagehaulError(
                    f"{name}: the patches one by one do not make the file that they are to make; "
                    "a diff in series/later/ lacks something, or has too much"
                )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
