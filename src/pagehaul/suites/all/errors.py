# SPDX-License-Identifier: GPL-2.0-only
"""The errors of the calls, alike on both kernels and in every mode, and of the knobs."""

from pagehaul.suites import ours
from pagehaul.suites.suite import Suite

SUITE = Suite(
    "errors",
    50,
    ours.of("migrate_errors", ("pagehaul", ["calls", "knobs"]), ("vanilla", ["calls"])),
    of_variants=True,
    elsewhere=True,
)
