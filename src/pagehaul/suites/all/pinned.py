# SPDX-License-Identifier: GPL-2.0-only
"""Pinned pages, writers and lockless readers beside the migration."""

from pagehaul.suites.ours import OurPrograms, Part, Run
from pagehaul.suites.suite import Suite

# The default mode, and the one in which nobody helps the caller. In mode `threads` helpers copy
# only, and without batches it is the kernel's own code that looks for pins.
_SHORT: tuple[Run, ...] = (("pagehaul", ["batch parallel"]),)

_WORK = OurPrograms((Part("migrate_pinned", alone=True, short=_SHORT),), ("e2fsprogs", "xfsprogs"))

SUITE = Suite(
    "pinned",
    90,
    _WORK,
    of_variants=True,
    left_out="modes other than batch and parallel, and the unmodified kernel",
    alone=True,
)
