# SPDX-License-Identifier: GPL-2.0-only
"""Lists of NUMA nodes as a user writes them, and the nodes that this machine has."""

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


def _online_nodes(sysfs: Path) -> tuple[int, ...]:
    try:
        return parse_list((sysfs / "online").read_text().strip())
    except (OSError, ValueError):
        return ()


def parse_nodes(text: str, what: str, sysfs: Path = SYSFS_NODES) -> tuple[int, ...]:
    """Read the node list that a user gave for `what` ("FROM", "TO").

    As migratepages(8): single nodes, ranges, "all" for every node with memory, and a leading "!"
    for every node with memory but those named. Raises PagehaulError where the text is not a list
    or names a node that is offline or has no memory.
    """
    usable = memory_nodes(sysfs)
    if text == "all":
        return usable
    inverted = text.startswith("!")
    try:
        named = parse_list(text[1:] if inverted else text)
    except ValueError as exc:
        raise PagehaulError(
            f'{what} "{text}" is not a list of nodes: write 0, 0,2, 0-3, !0 or all'
        ) from exc
    missing = [node for node in named if node not in usable]
    if missing:
        online = _online_nodes(sysfs)
        empty = [node for node in missing if node in online]
        bad, why = (empty, "has no memory") if empty else (missing, "is not online")
        raise PagehaulError(
            f"{what}: node {format_nodes(bad)} {why}: "
            f"the nodes with memory are {format_nodes(usable)}"
        )
    if not inverted:
        return named
    rest = tuple(node for node in usable if node not in named)
    if not rest:
        raise PagehaulError(f'{what} "{text}" leaves no node')
    return rest
