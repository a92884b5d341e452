# SPDX-License-Identifier: GPL-2.0-only
"""Content and node of every kind of memory, moved in every way, in every mode."""

from dataclasses import replace

from pagehaul.host import facts, tools
from pagehaul.suites import ours, room
from pagehaul.suites.ours import ALL_MODES, Part
from pagehaul.suites.outcomes import Outcome, skipped
from pagehaul.suites.programs import GUEST, memory_mb
from pagehaul.suites.suite import Subject, Suite

# One 1 GB page on each node, where the host has room for that and for itself. The first node has a
# hole below 4 GB: with less it has no aligned GB that the kernel leaves free.
_KIND = "hugetlb_1g"
_GIGANTIC = replace(GUEST, memory_mb=7168, append=("hugepagesz=1G", "hugepages=0:1,1:1"))

# The short form has all kinds and ways in the default mode, and these kinds in the other ones.
_FEW_KINDS = "base,mthp_64k,thp,tmpfs,hugetlb_2m"

# Memory for 1 GB pages would leave too little of the movable memory that the others need.
_MOST = Part(
    "migrate_content",
    [(kernel, [f"-x {_KIND} {modes}"]) for kernel, (modes,) in ALL_MODES],
    short=[
        ("pagehaul", [f"-x {_KIND} parallel"]),
        ("pagehaul", [f"-k {_FEW_KINDS} threads off batch"]),
    ],
)
_REST = Part(
    "migrate_content",
    [(kernel, [f"-k {_KIND} {modes}"]) for kernel, (modes,) in ALL_MODES],
    _GIGANTIC,
    suite="content-1g",
    short=[("pagehaul", [f"-k {_KIND} parallel"])],
)
_LEFT_OUT = f"modes other than parallel but for {_FEW_KINDS}, and the unmodified kernel"


def _work(subject: Subject) -> list[Outcome]:
    tools.require("e2fsprogs", "xfsprogs")
    outcomes = ours.run(_MOST, subject)
    needed = memory_mb(_GIGANTIC, subject.ours) + room.HOST_RESERVE_MB
    # While no guest has any.
    with room.hold(0, alone=True):
        enough = facts.memory_available_mb() >= needed
    if not enough:
        why = f"this host has less than {needed} MiB available"
        return [*outcomes, skipped(f"{_KIND}, all ways and modes", why)]
    return outcomes + ours.run(_REST, subject)


SUITE = Suite("content", 80, _work, of_variants=True, left_out=_LEFT_OUT)
