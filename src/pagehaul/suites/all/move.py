# SPDX-License-Identifier: GPL-2.0-only
"""The verb `move` on both kernels, in a guest with a node that has no CPU."""

import shlex
import sys
from dataclasses import replace
from functools import partial

from pagehaul.guest import cprogs
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.paths import REPO
from pagehaul.suites.ours import flat_programs
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST, Program
from pagehaul.suites.suite import Subject, Suite
from pagehaul.suites.together import all_at_once


def _work(subject: Subject) -> list[Outcome]:
    tools.need_for("programs")
    victim = cprogs.build_static(REPO / "tests/guest") / "victim"
    # A copy, because other users of the guest cannot reach into the cache of the host's root.
    copy = "/run/victim"
    check = [
        "env",
        f"PYTHONPATH={REPO / 'src'}",
        "PYTHONDONTWRITEBYTECODE=1",
        sys.executable,
        "tests/guest/check_move.py",
        copy,
    ]
    command = f"install -m 755 {shlex.quote(str(victim))} {copy} && {shlex.join(check)}"
    guest = replace(GUEST, memory_only_nodes=1, append=())
    programs = [Program("move", command)]
    kernels = [build.build(subject.ours, subject.base)]
    if subject.ours == "pagehaul" and not subject.alone:
        kernels.append(build.build("vanilla", subject.base))
    works = [partial(flat_programs, "move", kernel, guest, programs) for kernel in kernels]
    return all_at_once(works, guest, kernels[0])


SUITE = Suite("move", 180, _work, of_variants=True, elsewhere=True)
