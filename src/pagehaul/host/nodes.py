# SPDX-License-Identifier: GPL-2.0-only
"""The NUMA nodes that this machine has, and lists of nodes as the kernel writes them."""

import re
from collections.abc import Iterable
from pathlib import Path

from pagehaul.errors import PagehaulError

# Where the kernel lists its nodes.
SYSFS_NODES = Path("/sys/devices/system/node")

# Larger than MAX_NUMNODES of any kernel: a range such as 0-4000000000 is refused, not expanded.
_MAX_NODE = 65535

_ITEM = re.compile(r"(\d+)(?:-(\d+))?")


def format_nodes(nodes: Iterable[int]) -> str:
    """Write `nodes` as the kernel does: "0", "0,2", "0-3"."""
    ordered = sorted(set(nodes))
    parts: list[str] = []
    first = 0
    while first < len(ordered):
        last = first
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[last] + 1:
            last += 1
        one = ordered[first] == ordered[last]
        parts.append(str(ordered[first]) if one else f"{ordered[first]}-{ordered[last]}")
        first = last + 1
    return ",".join(parts)


def parse_list(text: str) -> tuple[int, ...]:
    """Read a list such as "0-3,8" in ascending order; raises ValueError on anything else."""
    nodes: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise ValueError(text)
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if not first <= last <= _MAX_NODE:
            raise ValueError(text)
        nodes.update(range(first, last + 1))
    return tuple(sorted(nodes))


def memory_nodes(sysfs: Path = SYSFS_NODES) -> tuple[int, ...]:
    """List the nodes that have memory; raises PagehaulError where the kernel has no NUMA."""
    try:
        text = (sysfs / "has_memory").read_text()
    except OSError as exc:
        raise PagehaulError(
            "this kernel has no NUMA support (CONFIG_NUMA): there are no nodes to move between"
        ) from exc
    return parse_list(text.strip())
