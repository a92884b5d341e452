# SPDX-License-Identifier: GPL-2.0-only
"""Which cgroup pays for those who help.

It compares times, most of which a kernel that looks for mistakes spends on that: no other variants.
"""

from pagehaul.suites import ours
from pagehaul.suites.suite import OURS, Suite

SUITE = Suite(
    "charge",
    140,
    ours.of("migrate_charge", ("pagehaul", ["@MTCOPY@"]), alone=True),
    kernels=(OURS,),
    alone=True,
)
