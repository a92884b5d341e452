# SPDX-License-Identifier: GPL-2.0-only
"""Memory tiers: which nodes have fast memory, and which slow memory such as that of CXL."""

import re
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host.nodes import format_nodes, parse_list

# Where the kernel lists its memory tiers: since Linux 6.1.
SYSFS_TIERS = Path("/sys/devices/virtual/memory_tiering")

TIERS = ("fast", "slow")


def read_tiers(sysfs: Path = SYSFS_TIERS) -> list[tuple[int, ...]]:
    """Return the nodes of each tier that has some, the fastest tier first.

    The number in a tier's name grows with the latency of its memory.
    """
    tiers: list[tuple[int, tuple[int, ...]]] = []
    for path in sysfs.glob("memory_tier*/nodelist"):
        number = re.fullmatch(r"memory_tier(\d+)", path.parent.name)
        try:
            text = path.read_text().strip()
            nodes = parse_list(text) if text else ()
        except (OSError, ValueError):
            continue
        if number and nodes:
            tiers.append((int(number[1]), nodes))
    return [nodes for _, nodes in sorted(tiers)]


def tier_nodes(
    name: str, usable: tuple[int, ...], sysfs: Path = SYSFS_TIERS
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the nodes outside the tier `name` ("fast", "slow") and those in it.

    Both are ascending and hold only nodes of `usable`. Of more than two tiers, `fast` is the
    fastest and `slow` the slowest. Raises PagehaulError where there are less than two.
    """
    tiers = [tuple(node for node in nodes if node in usable) for nodes in read_tiers(sysfs)]
    tiers = [nodes for nodes in tiers if nodes]
    if not tiers:
        raise PagehaulError(
            f"this kernel has no memory tiers in {sysfs}: name the nodes, as FROM and TO"
        )
    if len(tiers) < 2:
        raise PagehaulError(
            f"all memory is in one tier (node {format_nodes(tiers[0])}): name the nodes, "
            "as FROM and TO"
        )
    inside = tiers[0] if name == "fast" else tiers[-1]
    return tuple(node for node in usable if node not in inside), inside
