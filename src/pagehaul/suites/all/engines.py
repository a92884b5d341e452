# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines while everything goes wrong that can."""

from pagehaul.suites import ours
from pagehaul.suites.suite import Suite

# How much moves with each fault of an engine (MiB), and how often one is loaded and unloaded.
_WORDS = "-b 64 -c 20 @MODULES@"

SUITE = Suite("engines", 150, ours.of("migrate_engine", ("pagehaul", [_WORDS])), of_variants=True)
