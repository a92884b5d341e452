# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines while everything goes wrong that can."""

from dataclasses import replace

from pagehaul.guest.machine import IOMMUS
from pagehaul.suites.ours import OurPrograms, Part, Run
from pagehaul.suites.programs import GUEST
from pagehaul.suites.suite import Suite

# How much moves with each fault of an engine (MiB), and how often one is loaded and unloaded.
_RUN: Run = ("pagehaul", ["-b 64 -c 20 @MODULES@"])

# Devices that do not reach memory by themselves.
_BOUNCE = ("swiotlb=force",)

# Devices that see what is mapped for them, and for how long: strictly as long as it is mapped, or
# until mappings are flushed together. Kernels for torture have drivers of these.
_UNMAPPING = {"strict": "iommu.strict=1", "lazy": "iommu.strict=0"}

_PARTS = (
    Part("migrate_engine", [_RUN]),
    Part(
        "migrate_engine",
        [_RUN],
        guest=replace(GUEST, append=(*GUEST.append, *_BOUNCE)),
        suite="engines-swiotlb",
        prefix="swiotlb=force: ",
    ),
    *(
        Part(
            "migrate_engine",
            [_RUN],
            guest=replace(GUEST, iommu=iommu, append=(*GUEST.append, word)),
            suite=f"engines-{iommu}-{how}",
            prefix=f"{iommu}, {how}: ",
            variants=("debug", "kcsan"),
        )
        for iommu in IOMMUS
        for how, word in _UNMAPPING.items()
    ),
)

SUITE = Suite("engines", 150, OurPrograms(_PARTS), of_variants=True)
