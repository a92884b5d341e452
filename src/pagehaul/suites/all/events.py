# SPDX-License-Identifier: GPL-2.0-only
"""What is counted and traced of moves, alike on both kernels and in every mode."""

from pagehaul.suites import ours
from pagehaul.suites.suite import Suite

SUITE = Suite("events", 70, ours.of("migrate_events"), of_variants=True)
