# SPDX-License-Identifier: GPL-2.0-only
"""Each patch of the series by itself: the kernel after it builds and boots."""

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.markup import escape

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Task
from pagehaul.kernel import build, spare, tree
from pagehaul.kernel.arches import X86_64
from pagehaul.kernel.bases import Base
from pagehaul.kernel.built import Kernel
from pagehaul.kernel.compose import Composed
from pagehaul.paths import cache_dir, log_dir

# What a kernel of the series is booted on: enough that there is something to migrate.
_GUEST = Guest(cpus=2, nodes=2, memory_mb=1024)
_BOOT_S = 300.0


def check(base: Base, pristine: Path, composed: Composed, names: Sequence[str]) -> int:
    """Build and boot the kernel after each of some patches, and say what came of it."""
    failed = 0
    for name in names:
        problem = _problem(base, pristine, composed, name)
        failed += bool(problem)
        colour, text = ("red", problem) if problem else ("green", "builds and boots")
        ui.console.print(f"[{colour}]{escape(name)}: {escape(text)}[/]", soft_wrap=True)
    print(
        f"{len(names) - failed} of {len(names)} patches build and boot on {base.name}", flush=True
    )
    return 1 if failed else 0


def _problem(base: Base, pristine: Path, composed: Composed, name: str) -> str:
    """Return what is wrong with the kernel after a patch; "" if it builds and boots."""
    log = log_dir() / f"series-{name}{base.suffix}.log"
    log.unlink(missing_ok=True)
    try:
        fill = _filler(pristine, composed, name)
        kernel = _build(base, pristine, fill, name, log)
        if warning := build.warned(log):
            return warning
        boot = log.with_suffix(".console.log")
        done = vm.run(kernel, _GUEST, Task(["cat", "/proc/version"], _BOOT_S), log=boot)
    except PagehaulError as error:
        return str(error)
    if done.returncode:
        return f"the guest ended with {done.returncode}, see {boot}"
    for lack in spare.LACKS:
        own = log.with_suffix(f".without-{lack}.log")
        if found := spare.problem(base, pristine, fill, lack, own):
            return f"without {lack}: {found}"
    return ""


def _filler(pristine: Path, composed: Composed, name: str) -> Callable[[Path], None]:
    """Return what puts into a directory all that is not as in the pristine source after a patch."""
    commit = composed.commits[name]
    first = composed.git("rev-list", "--max-parents=0", commit).strip()
    touched = composed.git("diff", "--name-only", first, commit).split()

    def fill(staging: Path) -> None:
        for each in touched:
            data = composed.content(commit, each)
            assert data is not None
            (staging / each).parent.mkdir(parents=True, exist_ok=True)
            (staging / each).write_bytes(data)
            if os.access(pristine / each, os.X_OK):
                (staging / each).chmod(0o755)

    return fill


def _build(
    base: Base, pristine: Path, fill: Callable[[Path], None], name: str, log: Path
) -> Kernel:
    """Build the kernel as it is after a patch, with what it has of the series switched on."""
    vanilla = build.build("vanilla", base)
    where = tree.prepare_with(f"series{base.suffix}", pristine, fill, built=vanilla.tree)
    with tempfile.TemporaryDirectory(prefix="series-config-", dir=cache_dir()) as directory:
        fragments = _fragments(base, where, Path(directory))
        build.configure(where, fragments, X86_64, log)
    targets = [X86_64.target, "modules"]
    build.make(where, targets, log, title=f"building {name}", variant="series")
    image = where / X86_64.image
    release = build.release_of(image)
    return Kernel("series", where, image, where / ".config", release, X86_64, base)


def _fragments(base: Base, where: Path, directory: Path) -> list[Path]:
    """Write the fragments of a tree's configuration to a directory, and return their paths."""
    written = []
    # Ours and those of the base may have the same name.
    for number, path in enumerate(build.fragments_of("pagehaul", base, X86_64)):
        written.append(directory / f"{number}-{path.name}")
        written[-1].write_text(_known(path, where), encoding="utf-8")
    return written


def _known(fragment: Path, where: Path) -> str:
    """Return a fragment's text without the options of patches that a tree does not have yet."""
    kconfigs = [
        where / "mm/Kconfig",
        where / "mm/migrate_copy/Kconfig",
        where / "drivers/dma/Kconfig",
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in kconfigs if path.exists())
    known = set(re.findall(r"^config (\w+)$", text, re.M))
    ours = re.compile(r"CONFIG_((?:MIGRATE_COPY|SOFTDMA|PCP_KEEP_COMPOUND)\w*)=")
    lines = fragment.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not (found := ours.match(line)) or found[1] in known)
