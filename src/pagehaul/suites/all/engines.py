# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines while everything goes wrong that can."""

from dataclasses import replace

from pagehaul.suites.ours import OurPrograms, Part, Run
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import Suite

# How much moves with each fault of an engine (MiB), and how often one is loaded and unloaded.
_RUN: Run = ("pagehaul", ["-b 64 -c 20 @MODULES@"])

# Devices that do not reach memory by themselves. softdma is a platform device, which no IOMMU that
# QEMU emulates translates for.
_BOUNCE = ("swiotlb=force",)

_PARTS = (
    Part("migrate_engine", [_RUN]),
    Part(
        "migrate_engine",
        [_RUN],
        guest=replace(GUEST, append=(*GUEST.append, *_BOUNCE)),
        suite="engines-swiotlb",
        prefix="swiotlb=force: ",
    ),
)

SUITE = Suite("engines", 150, OurPrograms(_PARTS), of_variants=True)
