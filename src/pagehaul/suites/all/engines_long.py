# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines as in the suite `engines`, for much longer."""

from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.suite import Suite

# 1 GB moves with each fault of an engine; and an engine is loaded and unloaded 1,000 times.
_PARTS = (
    Part(
        "migrate_engine",
        [("pagehaul", ["-b 1024 -c 1 @MODULES@"])],
        suite="engines-long-faults",
        prefix="1 GB: ",
        timeout_s=4 * 3600.0,
    ),
    Part(
        "migrate_engine",
        [("pagehaul", ["-b 1 -c 1000 @MODULES@"])],
        suite="engines-long-cycles",
        prefix="1,000 cycles: ",
        timeout_s=4 * 3600.0,
    ),
)

SUITE = Suite("engines-long", 155, OurPrograms(_PARTS), of_variants=True, on_request=True)
