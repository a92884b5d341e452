# SPDX-License-Identifier: GPL-2.0-only
"""The short form of the verb `torture`."""

from rich.markup import escape

from pagehaul import ui
from pagehaul.kernel import build
from pagehaul.suites import torturing
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.suite import OURS, Subject, Suite

# Every run is the same, as far as the seed decides.
_SECONDS = 60
_SEED = 1


def _work(subject: Subject) -> list[Outcome]:
    """Torture our kernel for a minute, with as many faults as its variant can inject."""
    report = torturing.torture(build.build(subject.ours, subject.base), _SECONDS, _SEED)
    if report.figures:
        ui.console.print(escape(torturing.line(report.figures)), soft_wrap=True)
    return report.outcomes


SUITE = Suite("torture", 230, _work, of_variants=True, kernels=(OURS,), alone=True)
