# SPDX-License-Identifier: GPL-2.0-only
"""Promotion between tiers of memory, after the fault: what comes, and what may no longer."""

from dataclasses import replace

from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import OURS, Suite

# A node with CPUs, and a slower one without.
_GUEST = replace(GUEST, nodes=1, memory_only_nodes=1, topology=None)

SUITE = Suite(
    "tiers",
    75,
    OurPrograms((Part("migrate_tiers", (("pagehaul", [""]),), _GUEST),)),
    of_variants=True,
    kernels=(OURS,),
)
