# SPDX-License-Identifier: GPL-2.0-only
"""A full node, a dying process, and machines with one node or one CPU."""

from dataclasses import replace

from pagehaul.guest.machine import Guest
from pagehaul.suites.ours import ALL_IN_ONE, ALL_MODES, OurPrograms, Part
from pagehaul.suites.suite import Suite

# Machines at the edge, and the modes that they can be in. A small node is soon full.
_EDGE = Guest(cpus=2, nodes=2, memory_mb=1024)
_MACHINES = {
    "two nodes": (_EDGE, ALL_MODES),
    "one node": (replace(_EDGE, nodes=1), ALL_IN_ONE),
    # Nobody can help there.
    "one CPU": (replace(_EDGE, cpus=1, nodes=1, memory_only_nodes=1), ALL_MODES[1:]),
}

_WORK = OurPrograms(
    tuple(
        Part(
            "migrate_boundary",
            runs,
            guest,
            suite=f"boundaries-{name.replace(' ', '-')}",
            prefix=f"{name}: ",
        )
        for name, (guest, runs) in _MACHINES.items()
    )
)

SUITE = Suite("boundaries", 100, _WORK, of_variants=True)
