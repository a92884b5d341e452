# SPDX-License-Identifier: GPL-2.0-only
"""The `torture` suite: the short form of the verb."""

from rich.markup import escape

from pagehaul import ui
from pagehaul.kernel import build
from pagehaul.kernel.bases import Base
from pagehaul.suites import torturing
from pagehaul.suites.outcomes import Outcome

# Every run is the same, as far as the seed decides.
_SECONDS = 60
_SEED = 1


def run(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Torture our kernel for a minute, with as many faults as its variant `ours` can inject."""
    report = torturing.torture(build.build(ours, base), _SECONDS, _SEED)
    if report.figures:
        ui.console.print(escape(torturing.line(report.figures)), soft_wrap=True)
    return report.outcomes
