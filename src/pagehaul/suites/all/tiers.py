# SPDX-License-Identifier: GPL-2.0-only
"""Promotion and demotion between tiers of memory: what comes, and what may not."""

from dataclasses import replace

from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import OURS, Suite

# A node with CPUs, and a slower one without.
_GUEST = replace(GUEST, nodes=1, memory_only_nodes=1, topology=None)

SUITE = Suite(
    "tiers",
    75,
    OurPrograms(
        tuple(
            Part(name, (("pagehaul", [""]),), _GUEST)
            for name in ("migrate_tiers", "migrate_demotion")
        )
    ),
    of_variants=True,
    kernels=(OURS,),
)
