# SPDX-License-Identifier: GPL-2.0-only
"""The verb `move` on both kernels, in a guest with a node that has no CPU."""

from dataclasses import replace

from pagehaul.suites import scripts
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import Subject, Suite

_GUEST = replace(GUEST, memory_only_nodes=1, append=())


def _work(subject: Subject) -> list[Outcome]:
    return scripts.run(subject, _GUEST, "check_move.py", ["victim"])


SUITE = Suite("move", 180, _work, of_variants=True, elsewhere=True)
