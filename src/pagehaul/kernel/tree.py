# SPDX-License-Identifier: GPL-2.0-only
"""Pagehaul's files and patches over a pristine kernel.

A tree is kept from one time to the next. The files that the series touches are made again in a
staging directory, from pristine files. Only files that came out different are copied into the tree:
`make` then rebuilds only those, and a patch that does not apply leaves the tree as it was.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import series, source
from pagehaul.kernel.bases import Base
from pagehaul.kernel.series import Content
from pagehaul.locks import lock
from pagehaul.paths import cache_dir, log_dir, read_record, remove_tree
from pagehaul.ui import run_logged


def prepare(
    name: str,
    pristine: Path,
    content: Content | None = None,
    *,
    built: Path | None = None,
) -> Path:
    """Return the tree `name` in the cache, brought up to date with the repository.

    It has `content` over it; without, it is the pristine source itself, copied, since building
    needs to write. A new one starts from `built`, the vanilla tree with a kernel built in it, if it
    is of that source: `make` then has less to do. Raises PagehaulError, naming patch, file and
    hunk, when a patch does not apply; the tree is then as it was.
    """
    fill = None if content is None else partial(stage, pristine, content)
    return prepare_with(name, pristine, fill, built=built)


def prepare_with(
    name: str,
    pristine: Path,
    fill: Callable[[Path], None] | None,
    *,
    built: Path | None = None,
) -> Path:
    """Return the tree `name` as prepare(), with what `fill` puts into the directory that it gets.

    That is all that is not as in the pristine source, in its final form.
    """
    tree = tree_dir() / name
    with lock(f"tree-{name}"):
        state = _read_state(tree)
        if not tree.exists() or state.get("source") != source.stamp(pristine):
            if built is not None and _read_state(built).get("source") != source.stamp(pristine):
                built = None
            _copy(built or pristine, tree)
            state = {"source": source.stamp(pristine), "touched": {}}
            _write_state(tree, state)
        if fill is None:
            return tree
        with tempfile.TemporaryDirectory(prefix=f".stage-{name}-", dir=tree_dir()) as directory:
            staging = Path(directory)
            fill(staging)
            _install(pristine, staging, tree, state)
    return tree


def prepare_variant(
    variant: str,
    base: Base,
    label: str = "",
    *,
    source_of: str | None = None,
    built: Path | None = None,
) -> Path:
    """Return the tree of a variant, see build.VARIANTS, for a base, brought up to date.

    label is the tree's name, that of the variant by default. source_of is as for `source.ensure`,
    built as for prepare(). Raises PagehaulError as both do.
    """
    name = f"{label or variant}{base.suffix}"
    parts = series.parts_of(variant)
    content = series.content(base, parts) if parts else None
    return prepare(name, source.ensure(base, source_of), content, built=built)


def digest(tree: Path) -> str:
    """Hash of all that makes up the content of a tree that `prepare` returned."""
    return hashlib.sha256(json.dumps(_read_state(tree), sort_keys=True).encode()).hexdigest()


def patched_sources(content: Content) -> list[str]:
    """Names of the kernel's own C files that the patches change."""
    text = "".join(path.read_text(encoding="utf-8") for path in content.diffs)
    changed = set(re.findall(r"^\+\+\+ b/(\S+\.c)$", text, re.MULTILINE))
    return sorted(changed - content.files.keys())


def tree_dir() -> Path:
    """Directory of the trees."""
    path = cache_dir() / "tree"
    path.mkdir(exist_ok=True)
    return path


def _state_file(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.json")


def _read_state(tree: Path) -> dict[str, object]:
    return read_record(_state_file(tree))


def _write_state(tree: Path, state: dict[str, object]) -> None:
    temporary = tree.with_name(f"{tree.name}.json.new")
    temporary.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(_state_file(tree))


def _copy(origin: Path, tree: Path) -> None:
    _state_file(tree).unlink(missing_ok=True)
    remove_tree(tree)
    work = Path(tempfile.mkdtemp(prefix=f".copy-{tree.name}-", dir=tree.parent))
    log = log_dir() / f"tree-{tree.name}.log"
    try:
        copy = ["cp", "--archive", "--reflink=auto", str(origin), str(work / "tree")]
        run_logged(copy, log, title=f"copying the source for {tree.name}")
        run_logged(["chmod", "--recursive", "u+w", work / "tree"], log, title="making it writable")
        _relocate(work / "tree" / "tools", origin, tree)
        (work / "tree").rename(tree)
    finally:
        remove_tree(work)


def _relocate(tools: Path, origin: Path, tree: Path) -> None:
    """Let objtool look as if built in `tree`: make would build it, and all objects, again."""
    for path in tools.rglob(".*.cmd"):
        text = path.read_text(encoding="utf-8")
        if str(origin) in text:
            path.write_text(text.replace(str(origin), str(tree)), encoding="utf-8")


def stage(pristine: Path, content: Content, staging: Path) -> None:
    """Make in the directory `staging` every file that `content` touches, in its final form."""
    for name, path in content.files.items():
        if (pristine / name).exists():
            raise PagehaulError(
                f"{path} would replace a file of the kernel: change that file by a patch instead"
            )
        _copy_file(path, staging / name)
    for patch in content.diffs:
        for relative in patched_files(patch):
            if not (staging / relative).exists() and (pristine / relative).exists():
                _copy_file(pristine / relative, staging / relative)
        apply(patch, staging)


def _copy_file(origin: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, target)
    shutil.copymode(origin, target)
    target.chmod(target.stat().st_mode | 0o200)


def patched_files(patch: Path) -> list[Path]:
    """Files that a patch touches, in the kernel's tree."""
    names: list[Path] = []
    for line in patch.read_text(encoding="utf-8").splitlines():
        match = re.match(r"(?:---|\+\+\+) [ab]/([^\t]+)", line)
        if match is None:
            continue
        path = Path(match[1])
        if path.is_absolute() or ".." in path.parts:
            raise PagehaulError(f"{patch.name}: touches {path}, outside the kernel")
        if path not in names:
            names.append(path)
    if not names:
        raise PagehaulError(f"{patch.name}: not a patch with a/ and b/ paths")
    return names


def apply(patch: Path, staging: Path, *options: str) -> None:
    """Apply a patch in a directory, all of it; PagehaulError says which hunk does not apply."""
    tools.require("patch")
    # No fuzz: a hunk whose surroundings changed may compile and be wrong.
    command = ["patch", "--strip=1", "--fuzz=0", "--forward", "--batch", "--no-backup-if-mismatch"]
    command += [*options, f"--input={patch}"]
    done = subprocess.run(
        command,
        cwd=staging,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode == 0:
        return
    raise PagehaulError(
        f"{patch.name} does not apply: {_rejection(done.stdout)}; the tree is as it was"
    )


def _rejection(output: str) -> str:
    """Which file and hunk `patch` complained about."""
    current = "?"
    failures: list[str] = []
    for line in output.splitlines():
        if match := re.match(r"(?:patching|checking) file (\S+)", line):
            current = match[1]
        elif match := re.match(r"Hunk (#\d+) (?:FAILED|ignored)( at \d+)?", line):
            failures.append(f"{current}, hunk {match[1]}{match[2] or ''}")
        elif match := re.match(r"The next patch would (?:create|delete) the file (\S+),", line):
            failures.append(f"{match[1]}, {line}")
        elif match := re.match(r"\|\+\+\+ b/(\S+)", line):
            failures.append(f"{match[1]}, which the kernel does not have")
        elif line.startswith("patch: "):
            failures.append(line.removeprefix("patch: ").lstrip("* "))
    return "; ".join(failures) or output.strip().replace("\n", "; ")


def _install(pristine: Path, staging: Path, tree: Path, state: dict[str, object]) -> None:
    """Make `tree` equal to `pristine` with `staging` over it; untouched files keep their times."""
    before = state["touched"]
    assert isinstance(before, dict)
    after = {
        str(path.relative_to(staging)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(staging.rglob("*"))
        if path.is_file()
    }
    if before == after and all(_same(staging / name, tree / name) for name in after):
        return
    # Should this be interrupted, the next time must know about old and new files alike.
    _write_state(tree, {**state, "touched": {name: "" for name in {**before, **after}}})
    for name in after:
        _replace(staging / name, tree / name)
    for name in before.keys() - after.keys():
        if (pristine / name).exists():
            _replace(pristine / name, tree / name)
        else:
            (tree / name).unlink(missing_ok=True)
    _write_state(tree, {**state, "touched": after})


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except FileNotFoundError:
        return False


def _replace(new: Path, old: Path) -> None:
    """Put the content of `new` at `old`, at once, unless it is there already."""
    if _same(new, old):
        return
    old.parent.mkdir(parents=True, exist_ok=True)
    temporary = old.with_name(f".{old.name}.pagehaul")
    shutil.copyfile(new, temporary)
    shutil.copymode(new, temporary)
    temporary.chmod(temporary.stat().st_mode | 0o200)
    temporary.replace(old)
