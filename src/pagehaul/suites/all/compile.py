# SPDX-License-Identifier: GPL-2.0-only
"""The patches for a base, GCC (W=1) and sparse. The suite lint has all of that, too."""

from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.sources import compiled
from pagehaul.suites.suite import Subject, Suite


def _work(subject: Subject) -> list[Outcome]:
    return compiled(subject.base)


SUITE = Suite("compile", 30, _work, on_request=True, elsewhere=True, boots=False)
