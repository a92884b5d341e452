# SPDX-License-Identifier: GPL-2.0-only
"""Pinned pages, writers and lockless readers beside the migration."""

from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.suite import Suite

_WORK = OurPrograms((Part("migrate_pinned", alone=True),), ("e2fsprogs", "xfsprogs"))

SUITE = Suite("pinned", 90, _WORK, of_variants=True, alone=True)
