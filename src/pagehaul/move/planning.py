# SPDX-License-Identifier: GPL-2.0-only
"""From where to where pages move, by how many callers: what the machine allows."""

import os
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host.nodes import format_nodes, memory_nodes
from pagehaul.move.addrspace import thp_size
from pagehaul.move.nodelist import parse_nodes
from pagehaul.move.tiers import tier_nodes
from pagehaul.move.windows import Plan

# Pagehaul's controls; absent on an unmodified kernel.
_MIGRATE_COPY = Path("/sys/kernel/mm/migrate_copy")

# More callers than this contend for the locks of one address space.
MOST_CALLERS = 8


def make_plan(source: str, destination: str) -> Plan:
    """Check FROM and TO against this machine; raises PagehaulError."""
    _check_nodes()
    plan = Plan(parse_nodes(source, "FROM"), parse_nodes(destination, "TO"), thp_size())
    if not plan.moving:
        raise PagehaulError(
            f"nothing to do from node {format_nodes(plan.sources)} "
            f"to node {format_nodes(plan.destinations)}: pages on a TO node stay there"
        )
    return plan


def tier_plan(tier: str) -> Plan:
    """Plan to move all to a memory tier, "fast" or "slow"; raises PagehaulError."""
    return Plan(*tier_nodes(tier, _check_nodes()), thp_size())


def _check_nodes() -> tuple[int, ...]:
    """Return the nodes with memory; PagehaulError where there is only one."""
    usable = memory_nodes()
    if len(usable) < 2:
        raise PagehaulError(
            f"this machine has one NUMA node with memory (node {format_nodes(usable)}): "
            "there is nowhere to move pages to"
        )
    return usable


def kernel_shares(controls: Path = _MIGRATE_COPY) -> bool:
    """Whether the running kernel lets several CPUs move one caller's pages, and is set to."""
    try:
        on = (controls / "enabled").read_text().strip() == "1"
        return on and int((controls / "max_helpers").read_text()) > 0
    except (OSError, ValueError):
        return False


def default_threads(shares: bool) -> int:
    """How many callers to use: the CPUs, at most eight; or one that the kernel helps."""
    return 1 if shares else min(len(os.sched_getaffinity(0)), MOST_CALLERS)
