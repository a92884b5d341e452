# SPDX-License-Identifier: GPL-2.0-only
"""Small kernels that lack something: the series has to compile and link there, too."""

from collections.abc import Callable
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel import build, tree
from pagehaul.kernel.arches import X86_64
from pagehaul.kernel.bases import Base
from pagehaul.paths import REPO

# What they lack; configs/ has a fragment for each.
LACKS = ("copy", "migration", "numa")


def problem(base: Base, pristine: Path, fill: Callable[[Path], None], lack: str, log: Path) -> str:
    """Return why there is no kernel without something; "" if it builds and has no warning.

    fill puts what is not as in the pristine source into a directory. lack is one of LACKS.
    """
    log.unlink(missing_ok=True)
    try:
        where = tree.prepare_with(f"without-{lack}{base.suffix}", pristine, fill)
        build.configure(where, [REPO / "configs" / f"without-{lack}.config"], X86_64, log)
        title = f"a kernel without {lack}"
        build.make(where, ["vmlinux"], log, title=title, variant=f"without-{lack}")
    except PagehaulError as error:
        return str(error)
    return build.warned(log)
