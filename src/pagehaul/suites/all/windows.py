# SPDX-License-Identifier: GPL-2.0-only
"""What adversaries do between two steps of a migration, and with its rules broken.

It needs a kernel more than other suites, so that it runs on request only.
"""

from dataclasses import replace

from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import Subject, Suite

# All that can go offline is in modules, one for each window in which a migration sleeps.
_EJECT = replace(GUEST, modules=6, append=("memhp_default_state=online_movable",))

# One guest at a time: who stands in a window keeps its CPU, which others may wait for, and a busy
# host hides what a broken rule does.
_WORDS = ("windows threads", "windows parallel", "windows batch", "breaks", "@MODULES@ dma")
_MODES = ("batch", "parallel")
_PROGRAMS = OurPrograms(
    (
        *(
            Part("migrate_windows", [("pagehaul", [words])], suite=f"windows-{words.split()[-1]}")
            for words in _WORDS
        ),
        *(
            Part(
                "migrate_windows", [("pagehaul", [f"eject {mode}"])], _EJECT, suite=f"eject-{mode}"
            )
            for mode in _MODES
        ),
    ),
    ("e2fsprogs", "xfsprogs"),
)


def _work(subject: Subject) -> list[Outcome]:
    # The variant that has the windows, unless another one that has them is asked for.
    ours = "torture" if subject.ours == "pagehaul" else subject.ours
    return _PROGRAMS(replace(subject, ours=ours))


SUITE = Suite("windows", 130, _work, of_variants=True, on_request=True, kernels=("torture",))
