# SPDX-License-Identifier: GPL-2.0-only
"""The tests inside our kernel."""

from pagehaul.kernel import build
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST, run_kunit
from pagehaul.suites.suite import OURS, Subject, Suite


def _work(subject: Subject) -> list[Outcome]:
    return run_kunit(build.build(subject.ours, subject.base), GUEST)


SUITE = Suite("kunit", 40, _work, of_variants=True, elsewhere=True, kernels=(OURS,))
