# SPDX-License-Identifier: GPL-2.0-only
"""A small run of the benchmark: every method moves everything, and every byte is right."""

from pagehaul.kernel import build
from pagehaul.suites import bound
from pagehaul.suites.figures import smoke
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.suite import Subject, Suite


def _work(subject: Subject) -> list[Outcome]:
    """Measure a little, and bind a guest as guests of KVM are bound."""
    return [*smoke(subject.base), *bound.check(build.build("pagehaul", subject.base))]


SUITE = Suite("bench-smoke", 210, _work, alone=True)
