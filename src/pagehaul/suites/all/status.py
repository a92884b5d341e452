# SPDX-License-Identifier: GPL-2.0-only
"""The status of every page of long lists, alike on both kernels and in every mode."""

from pagehaul.suites import ours
from pagehaul.suites.suite import Suite

SUITE = Suite("status", 60, ours.of("migrate_status"), of_variants=True, elsewhere=True)
