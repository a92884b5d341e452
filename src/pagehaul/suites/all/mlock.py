# SPDX-License-Identifier: GPL-2.0-only
"""How often migration drains the LRU batches, and the accounting of mlocked pages."""

from pagehaul.suites import ours
from pagehaul.suites.ours import OUR_MODES
from pagehaul.suites.suite import Suite

SUITE = Suite(
    "mlock",
    120,
    ours.of("migrate_mlock", ("pagehaul", OUR_MODES), ("vanilla", ["plain"])),
    of_variants=True,
)
