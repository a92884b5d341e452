# SPDX-License-Identifier: GPL-2.0-only
"""What is moved out of the way of a page of 1 GB, in every mode."""

from dataclasses import replace

from pagehaul.suites.ours import ALL_IN_ONE, OurPrograms, Part
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import Suite

# A page of 1 GB on the second node for the contiguous memory allocator, lent to others until then.
# The kernel itself must not be there.
_GUEST = replace(GUEST, memory_mb=4096, append=("hugetlb_cma=1:1G", "nokaslr"))

SUITE = Suite(
    "contig",
    110,
    OurPrograms((Part("migrate_contig", ALL_IN_ONE, _GUEST, alone=True),)),
    of_variants=True,
    alone=True,
)
