# SPDX-License-Identifier: GPL-2.0-only
"""Node lists as users write them."""

from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.host.nodes import format_nodes, memory_nodes, parse_list
from pagehaul.move.nodelist import parse_nodes


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A machine with nodes 0 to 4; node 3 has no memory."""
    (tmp_path / "online").write_text("0-4\n")
    (tmp_path / "has_memory").write_text("0-2,4\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("0", (0,)), ("0,2", (0, 2)), ("2,0", (0, 2)), ("0-2", (0, 1, 2)), ("0-1,4", (0, 1, 4))],
)
def test_lists_and_ranges(sysfs: Path, text: str, nodes: tuple[int, ...]) -> None:
    assert parse_nodes(text, "FROM", sysfs) == nodes


def test_all_is_every_node_with_memory(sysfs: Path) -> None:
    assert parse_nodes("all", "FROM", sysfs) == (0, 1, 2, 4)
    assert memory_nodes(sysfs) == (0, 1, 2, 4)


def test_exclamation_mark_inverts(sysfs: Path) -> None:
    assert parse_nodes("!0,4", "TO", sysfs) == (1, 2)
    with pytest.raises(PagehaulError, match="leaves no node"):
        parse_nodes("!0-2,4", "TO", sysfs)


@pytest.mark.parametrize("text", ["", "x", "0,", "1-0", "-1", "0-", "0 1", "0-99999999999", "0x1"])
def test_not_a_list(sysfs: Path, text: str) -> None:
    with pytest.raises(PagehaulError, match=r"FROM .* is not a list of nodes") as caught:
        parse_nodes(text, "FROM", sysfs)
    assert "\n" not in str(caught.value)


def test_node_without_memory_and_offline_node(sysfs: Path) -> None:
    with pytest.raises(PagehaulError, match=r"TO: node 3 has no memory.*0-2,4"):
        parse_nodes("0,3", "TO", sysfs)
    with pytest.raises(PagehaulError, match=r"TO: node 7 is not online.*0-2,4"):
        parse_nodes("7", "TO", sysfs)


def test_kernel_without_numa(tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match="no NUMA support"):
        parse_nodes("0", "FROM", tmp_path)


@pytest.mark.parametrize("text", ["0", "0,2", "0-3", "0-3,8,10-11"])
def test_format_is_the_inverse_of_parse(text: str) -> None:
    assert format_nodes(parse_list(text)) == text
