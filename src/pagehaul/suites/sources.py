# SPDX-License-Identifier: GPL-2.0-only
"""What tools can say of the sources without running them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import bases, build, compose, mails, series, source, tree
from pagehaul.kernel.bases import Base
from pagehaul.locks import lock
from pagehaul.paths import REPO, log_dir
from pagehaul.suites.outcomes import Outcome, failed, verdict

# Lines of a tool's output that the reason of a failure repeats.
_LINES = 15

# Where the kernel's build puts our objects, and what is ours in a compiler's messages.
_OURS = ("mm/migrate_copy/", "drivers/dma/softdma.o")
_OUR_FILES = re.compile(
    r"mm/migrate_copy/|migrate_copy(?:_engine|_windows)?\.h|drivers/dma/softdma\.c"
)

# What sparse says of a function, where a kernel's headers (those of 6.12) still tell it of locks.
_IMBALANCE = re.compile(r"(\S+): warning: context imbalance in '(\w+)'")

# Patches, and those without a message.
_DIFFS = (".patch", ".diff")

# Seconds for one tool.
_TIMEOUT_S = 900.0


def linted(base: Base | None = None) -> list[Outcome]:
    """Ask all of them."""
    tools.need_for("build")
    tools.need_for("check")
    (log_dir() / "test-lint.log").write_text("", encoding="utf-8")
    with ui.step("ruff and mypy"):
        outcomes = [
            _tool("ruff check", sys.executable, "-m", "ruff", "check", "."),
            _tool("ruff format", sys.executable, "-m", "ruff", "format", "--check", "."),
            _tool("mypy", sys.executable, "-m", "mypy"),
        ]
    base = base or bases.get()
    pristine = source.ensure(base)
    with ui.step("checkpatch of the new files"):
        outcomes += _checkpatch(pristine, kernel_sources())
    return outcomes + compiled(base)


def _output(
    command: Sequence[str | Path],
    cwd: Path = REPO,
    stderr: int = subprocess.STDOUT,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        status, output = 124, f"not finished after {_TIMEOUT_S:.0f} s"
    with (log_dir() / "test-lint.log").open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(str(word) for word in command)}\n{output}\n")
    return status, output


def _tool(name: str, *command: str) -> Outcome:
    status, output = _output(command)
    return verdict(name, _last(output) or f"exit status {status}" if status else "")


def _last(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-_LINES:])


def kernel_sources() -> list[Path]:
    """Files in kernel/ that git knows, or that are new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "kernel"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [REPO / line for line in listed.stdout.splitlines()]
    else:
        names = list((REPO / "kernel").rglob("*"))
    return sorted(path for path in names if path.is_file())


def _not_for(path: Path) -> list[str]:
    """Types of complaints of checkpatch that do not apply to a file."""
    # MAINTAINERS says nothing of files outside the kernel's tree.
    types = ["FILE_PATH_CHANGES"]
    if path.suffix in _DIFFS or path.parent.name == "events":
        # TRACE_EVENT() has a layout of its own, in every trace header of the kernel. A patch has
        # lines of files that are checked by themselves, too.
        types += ["OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"]
    if path.suffix in _DIFFS:
        # A source package has no history in which it could look up what is said to be fixed.
        types.append("UNKNOWN_COMMIT_ID")
    if path.suffix in (*_DIFFS, ".bt"):
        # It does not know the comments of bpftrace.
        types.append("SPDX_LICENSE_TAG")
    if path.suffix == ".diff":
        # Its message is that of the patch of the default base.
        types += ["COMMIT_MESSAGE", "MISSING_SIGN_OFF"]
    return types


def _checkpatch(pristine: Path, paths: Sequence[Path]) -> list[Outcome]:
    """Return a test for each file: nothing at all to complain about, checks included."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(_checkpatch_file, pristine), paths))


def _checkpatch_series(base: Base) -> list[Outcome]:
    """Return a test for each patch of the series, as it would be sent."""
    pristine = source.ensure(base)
    with TemporaryDirectory(prefix="pagehaul-series-") as directory:
        where, out = Path(directory) / "repository", Path(directory) / f"series-{base.name}"
        where.mkdir()
        try:
            composed = compose.compose(base, pristine, series.load().parts, where)
            written = mails.write(pristine, composed, list(composed.commits), out)
        except PagehaulError as error:
            return [failed(f"series on {base.name}", str(error))]
        return _checkpatch(pristine, written[1:])


def _checkpatch_hooks(base: Base) -> list[Outcome]:
    """Return a test for the hunks of each patch of a base that is not the default one.

    All else of its patches, messages and new files, is what the default base has, too.
    """
    return _checkpatch(source.ensure(base), sorted(base.patches.glob("*.diff")))


def _checkpatch_file(pristine: Path, path: Path) -> Outcome:
    command: list[str | Path] = [
        "perl",
        pristine / "scripts/checkpatch.pl",
        f"--root={pristine}",
        "--strict",
        "--no-summary",
        "--terse",
        "--show-types",
        f"--ignore={','.join(_not_for(path))}",
    ]
    if path.suffix not in _DIFFS:
        command.append("--file")
    # It leaves a file where it runs. On stderr there are only complaints of a helper of it that
    # wants another Python package.
    with TemporaryDirectory(prefix="pagehaul-checkpatch-") as directory:
        status, output = _output([*command, path], Path(directory), stderr=subprocess.DEVNULL)
    shown = path.relative_to(REPO) if path.is_relative_to(REPO) else Path(*path.parts[-2:])
    name = f"checkpatch {shown}"
    return verdict(name, _last(output) or f"exit status {status}" if status else "")


def compiled(base: Base | None = None) -> list[Outcome]:
    """Check the patches for a base, and ask GCC (W=1) and sparse.

    No warning in our files, no new one in the others.
    """
    base = base or bases.get()
    tools.need_for("build")
    tools.need_for("check")
    with ui.step(f"the series on {base.name}"):
        patches = _checkpatch_series if base.name == bases.DEFAULT else _checkpatch_hooks
        outcomes = patches(base)
    warnings = {}
    for variant in ("vanilla", "pagehaul"):
        where = build.configured(variant, base)
        objects = [*patched_objects(base), *(_OURS if variant == "pagehaul" else ())]
        # As the tree is built, or the next build would compile all of it again.
        command = [*build.make_command(variant), "W=1", "C=2", *objects]
        with (
            ui.step(f"W=1 and sparse, {variant}"),
            # The kernel may be being built there.
            lock(f"build-{where.name}"),
        ):
            # The compiler is silent about objects that are compiled already.
            for name in objects:
                path = where / name
                for old in path.glob("*.o") if path.is_dir() else (path,):
                    old.unlink(missing_ok=True)
            status, output = _output(command, cwd=where, env=build.make_environment(where))
        if status:
            return [*outcomes, verdict(f"compile {variant} with W=1 C=2", _last(output))]
        warnings[variant] = find_warnings(output)
    return outcomes + judge_warnings(warnings["vanilla"], warnings["pagehaul"])


def patched_objects(base: Base) -> list[str]:
    """Objects of the kernel's own files that our patches change."""
    content = series.content(base, series.parts_of("pagehaul"))
    return [str(Path(name).with_suffix(".o")) for name in tree.patched_sources(content)]


def find_warnings(output: str) -> set[str]:
    """Warnings and errors, without the line numbers, which differ between the kernels."""
    found = re.findall(r"^\S+?:\d+:\d+: (?:warning|error): .*$", output, re.MULTILINE)
    return {re.sub(r":\d+:\d+:", ":", line) for line in found}


def _has_guard(warning: str) -> bool:
    """Whether this is the balance of locks in a function of ours that takes one by guard().

    Sparse does not see that the end of a scope gives it back, and complains of each such function.
    """
    match = _IMBALANCE.match(warning)
    if not match:
        return False
    path, name = match.groups()
    file = REPO / "kernel" / path
    body = re.search(
        rf"^\w[^\n;]*\b{name}\([^;{{]*\)\n\{{\n.*?^\}}",
        file.read_text(encoding="utf-8") if file.is_file() else "",
        re.MULTILINE | re.DOTALL,
    )
    return bool(body and re.search(r"\b(?:scoped_)?guard\(", body.group()))


def judge_warnings(vanilla: set[str], pagehaul: set[str]) -> list[Outcome]:
    """Return a test of our files, and one of the files that we change."""
    ours = {line for line in pagehaul if _OUR_FILES.search(line)}
    new = pagehaul - vanilla - ours
    ours = {line for line in ours if not _has_guard(line)}
    return [
        verdict("W=1 and sparse: no warning in our files", "\n".join(sorted(ours)[:_LINES])),
        verdict("W=1 and sparse: no new warning in others", "\n".join(sorted(new)[:_LINES])),
    ]
