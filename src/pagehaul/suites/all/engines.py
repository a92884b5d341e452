# SPDX-License-Identifier: GPL-2.0-only
"""The copy engines while everything goes wrong that can."""

from dataclasses import replace
from functools import partial

from pagehaul.guest.machine import IOMMUS
from pagehaul.suites.ours import OurPrograms, Part
from pagehaul.suites.programs import GUEST, TIMEOUT_S
from pagehaul.suites.suite import OURS, Suite

# How much moves with each fault of an engine (MiB), and how often one is loaded and unloaded.
_WORDS = "-b 64 -c 20"

# Devices that do not reach memory by themselves.
_BOUNCE = ("swiotlb=force",)

# Devices that see what is mapped for them, and for how long: strictly as long as it is mapped, or
# until mappings are flushed together. Kernels for torture have drivers of these.
_UNMAPPING = {"strict": "iommu.strict=1", "lazy": "iommu.strict=0"}


def parts(suite: str, words: str, prefix: str = "", timeout_s: float = TIMEOUT_S) -> list[Part]:
    """Return the parts of a suite that runs the test of engines with these words.

    The guests are a plain one, one where everything goes through bounce buffers, and, for kernels
    for torture, one for each IOMMU and mode of it.
    """
    of_suite = partial(
        Part,
        "migrate_engine",
        [("pagehaul", [f"{words} @MODULES@"])],
        timeout_s=timeout_s,
    )
    found = [
        of_suite(suite=suite, prefix=prefix),
        of_suite(
            guest=replace(GUEST, append=(*GUEST.append, *_BOUNCE)),
            suite=f"{suite}-swiotlb",
            prefix=f"{prefix}swiotlb=force: ",
        ),
    ]
    return found + [
        of_suite(
            guest=replace(GUEST, iommu=iommu, append=(*GUEST.append, word)),
            suite=f"{suite}-{iommu}-{how}",
            prefix=f"{prefix}{iommu}, {how}: ",
            variants=("debug", "kcsan"),
        )
        for iommu in IOMMUS
        for how, word in _UNMAPPING.items()
    ]


SUITE = Suite(
    "engines", 150, OurPrograms(tuple(parts("engines", _WORDS))), of_variants=True, kernels=(OURS,)
)
