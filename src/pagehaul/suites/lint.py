# SPDX-License-Identifier: GPL-2.0-only
"""The `lint` suite: what tools can say of the sources without running them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pagehaul import build, host, source, tree, ui
from pagehaul.paths import REPO, log_dir
from pagehaul.suites.outcomes import Outcome, verdict

# Lines of a tool's output that the reason of a failure repeats.
_LINES = 15

# Where the kernel's build puts our objects, and what is ours in a compiler's messages.
_OURS = ("mm/migrate_copy/", "drivers/dma/softdma.o")
_OUR_FILES = re.compile(
    r"mm/migrate_copy/|migrate_copy(?:_engine|_windows)?\.h|drivers/dma/softdma\.c"
)

# Seconds for one tool.
_TIMEOUT_S = 900.0


def run() -> list[Outcome]:
    """Run all of them."""
    host.need_for("build")
    host.need_for("check")
    (log_dir() / "test-lint.log").write_text("", encoding="utf-8")
    with ui.step("ruff and mypy"):
        outcomes = [
            _tool("ruff check", sys.executable, "-m", "ruff", "check", "."),
            _tool("ruff format", sys.executable, "-m", "ruff", "format", "--check", "."),
            _tool("mypy", sys.executable, "-m", "mypy"),
        ]
    pristine = source.ensure()
    with ui.step("checkpatch"):
        outcomes += _checkpatch(pristine)
    return outcomes + _compiler()


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
    """Files in kernel/ and patches/ that git knows, or that are new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "kernel", "patches"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [REPO / line for line in listed.stdout.splitlines()]
    else:
        names = [path for top in ("kernel", "patches") for path in (REPO / top).rglob("*")]
    return sorted(path for path in names if path.is_file())


def _not_for(path: Path) -> list[str]:
    """Types of complaints of checkpatch that do not apply to a file."""
    # MAINTAINERS says nothing of files outside the kernel's tree, nor from whom a patch comes.
    types = ["FILE_PATH_CHANGES", "MISSING_SIGN_OFF", "FROM_SIGN_OFF_MISMATCH"]
    if path.parent.name == "events":
        # TRACE_EVENT() has a layout of its own, in every trace header of the kernel.
        types += ["OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"]
    return types


def _checkpatch(pristine: Path) -> list[Outcome]:
    """Return a test for each file: nothing at all to complain about, checks included."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(_checkpatch_file, pristine), kernel_sources()))


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
    if path.suffix != ".patch":
        command.append("--file")
    # It leaves a file where it runs. On stderr there are only complaints of a helper of it that
    # wants another Python package.
    with TemporaryDirectory(prefix="pagehaul-checkpatch-") as directory:
        status, output = _output([*command, path], Path(directory), stderr=subprocess.DEVNULL)
    name = f"checkpatch {path.relative_to(REPO)}"
    return verdict(name, _last(output) or f"exit status {status}" if status else "")


def _compiler() -> list[Outcome]:
    """Ask GCC (W=1) and sparse: no warning in our files, no new one in the others."""
    warnings = {}
    for variant in ("vanilla", "pagehaul"):
        kernel = build.build(variant)
        objects = [*patched_objects(), *(_OURS if variant == "pagehaul" else ())]
        # Whatever has been compiled before says nothing now.
        for name in objects:
            path = kernel.tree / name
            for old in path.glob("*.o") if path.is_dir() else (path,):
                old.unlink(missing_ok=True)
        # As the tree is built, or the next build would compile all of it anew.
        command = [*build.make_command(variant), "W=1", "C=2", *objects]
        with ui.step(f"W=1 and sparse, {variant}"):
            status, output = _output(
                command, cwd=kernel.tree, env=build.make_environment(kernel.tree)
            )
        if status:
            return [verdict(f"compile {variant} with W=1 C=2", _last(output))]
        warnings[variant] = find_warnings(output)
    return judge_warnings(warnings["vanilla"], warnings["pagehaul"])


def patched_objects() -> list[str]:
    """Objects of the kernel's own files that our patches change."""
    return [str(Path(name).with_suffix(".o")) for name in tree.patched_sources()]


def find_warnings(output: str) -> set[str]:
    """Warnings and errors, without the line numbers, which differ between the kernels."""
    found = re.findall(r"^\S+?:\d+:\d+: (?:warning|error): .*$", output, re.MULTILINE)
    return {re.sub(r":\d+:\d+:", ":", line) for line in found}


def judge_warnings(vanilla: set[str], pagehaul: set[str]) -> list[Outcome]:
    """Return a test of our files, and one of the files that we change."""
    ours = {line for line in pagehaul if _OUR_FILES.search(line)}
    new = pagehaul - vanilla - ours
    return [
        verdict("W=1 and sparse: no warning in our files", "\n".join(sorted(ours)[:_LINES])),
        verdict("W=1 and sparse: no new warning in others", "\n".join(sorted(new)[:_LINES])),
    ]
