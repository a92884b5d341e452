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

_MT_PAGE_COPY = Path("/proc/sys/vm/mt_page_copy")
_STATUS = Path("/proc/self/status")

# Of linux/capability.h: with it a call that asks for helpers gets them whatever the settings say.
_CAP_SYS_NICE = 23

# Why a call of move_pages(2) migrates, and the setting by which that decides; the reasons are in
# include/linux/migrate_mode.h, the settings in the guide.
_REASON = "syscall_or_cpuset"
_ALWAYS, _BY_REASON = "1", "2"

# More callers than this contend for the locks of one address space.
MOST_CALLERS = 8

# With fewer, helpers of the kernel would be idle while callers search and count.
HELPED_CALLERS = 4


def make_plan(source: str, destination: str) -> Plan:
    """Check FROM and TO against this machine; raises PagehaulError."""
    usable = _check_nodes()
    sources, destinations = parse_nodes(source, "FROM"), parse_nodes(destination, "TO")
    complete = set(usable) <= {*sources, *destinations}
    plan = Plan(sources, destinations, thp_size(), complete)
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


def kernel_helps(
    move_all: bool,
    controls: Path = _MIGRATE_COPY,
    sysctl: Path = _MT_PAGE_COPY,
    status: Path = _STATUS,
) -> bool:
    """Whether the kernel helps a caller of this tool, which asks for it in each call.

    Pages that other processes map, too (move_all), are moved by one CPU alone. Elsewhere the
    administrator's settings decide, unless the caller may change priorities.
    """
    if move_all or not kernel_shares(controls):
        return False
    try:
        if _capabilities(status) >> _CAP_SYS_NICE & 1:
            return True
        setting = sysctl.read_text().strip()
        by_reason = _REASON in (controls / "reasons").read_text().split()
    except (OSError, ValueError):
        return False
    return setting == _ALWAYS or (setting == _BY_REASON and by_reason)


def _capabilities(status: Path) -> int:
    """Return the bits of the capabilities in effect, of /proc/self/status."""
    lines = status.read_text().splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def default_threads(helped: bool, cpus: int | None = None) -> int:
    """How many callers to use: `cpus`, at most eight; fewer where the kernel helps them.

    None is as many CPUs as this process may use.
    """
    cpus = cpus or len(os.sched_getaffinity(0))
    return min(cpus, HELPED_CALLERS if helped else MOST_CALLERS)
