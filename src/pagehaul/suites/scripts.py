# SPDX-License-Identifier: GPL-2.0-only
"""Scripts of tests/guest, in Python, with the programs that they need, on both kernels."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial

from pagehaul.guest import cprogs
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.paths import REPO
from pagehaul.suites.ours import flat_programs
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import Program
from pagehaul.suites.suite import Subject
from pagehaul.suites.together import all_at_once

_DIRECTORY = "tests/guest"


def run(
    subject: Subject, guest: Guest, script: str, programs: Sequence[str], words: Sequence[str] = ()
) -> list[Outcome]:
    """Run a script that prints TAP, and return how each of its tests ended.

    Its arguments are the paths of `programs`, and then `words`.
    """
    tools.need_for("programs")
    directory = cprogs.build_static(REPO / _DIRECTORY)
    # Copies, because other users of the guest cannot reach into the cache of the host's root.
    copies = [f"/run/{name}" for name in programs]
    sources = [str(directory / name) for name in programs]
    command = [
        "env",
        f"PYTHONPATH={REPO / 'src'}",
        "PYTHONDONTWRITEBYTECODE=1",
        sys.executable,
        f"{_DIRECTORY}/{script}",
        *copies,
        *words,
    ]
    text = f"install -m 755 {shlex.join(sources)} /run && {shlex.join(command)}"
    kernels = [build.build(subject.ours, subject.base)]
    if subject.ours == "pagehaul" and not subject.alone:
        kernels.append(build.build("vanilla", subject.base))
    runs = [Program(subject.suite, text)]
    works = [partial(flat_programs, subject.suite, kernel, guest, runs) for kernel in kernels]
    return all_at_once(works, kernels[0])
