# SPDX-License-Identifier: GPL-2.0-only
"""Lists of NUMA nodes as a user writes them."""

from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host.nodes import SYSFS_NODES, format_nodes, memory_nodes, parse_list


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
