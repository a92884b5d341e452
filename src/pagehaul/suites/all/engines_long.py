# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines as in the suite `engines`, for much longer."""

from pagehaul.suites.all import engines
from pagehaul.suites.ours import OurPrograms
from pagehaul.suites.suite import OURS, Suite

# 1 GB moves with each fault of an engine; and an engine is loaded and unloaded 1,000 times. (The
# first time it goes at once, and need not have copied anything.)
_WORDS = {"1 GB": "-b 1024 -c 2", "1,000 cycles": "-b 64 -c 1000"}

_PARTS = tuple(
    part
    for number, (what, words) in enumerate(_WORDS.items(), 1)
    for part in engines.parts(f"engines-long-{number}", words, f"{what}: ", 4 * 3600.0)
)

SUITE = Suite(
    "engines-long", 155, OurPrograms(_PARTS), of_variants=True, on_request=True, kernels=(OURS,)
)
