# SPDX-License-Identifier: GPL-2.0-only
"""Memory tiers by name."""

from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.move.tiers import read_tiers, tier_nodes


def tiers(sysfs: Path, **nodes: str) -> Path:
    for name, text in nodes.items():
        (sysfs / name).mkdir()
        (sysfs / name / "nodelist").write_text(text + "\n")
    return sysfs


def test_tiers_are_ordered_by_number(tmp_path: Path) -> None:
    tiers(tmp_path, memory_tier22="2-3", memory_tier4="0,1", memory_tier9="", memory_tiers="5")
    assert read_tiers(tmp_path) == [(0, 1), (2, 3)]
    assert tier_nodes("slow", (0, 1, 2, 3), tmp_path) == ((0, 1), (2, 3))
    assert tier_nodes("fast", (0, 1, 2, 3), tmp_path) == ((2, 3), (0, 1))


def test_of_three_tiers_the_outer_ones_have_names(tmp_path: Path) -> None:
    tiers(tmp_path, memory_tier1="4", memory_tier4="0-1", memory_tier30="7,9")
    assert tier_nodes("fast", (0, 1, 4, 7), tmp_path) == ((0, 1, 7), (4,))
    assert tier_nodes("slow", (0, 1, 4, 7), tmp_path) == ((0, 1, 4), (7,))


def test_one_tier_or_none(tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match="this kernel has no memory tiers"):
        tier_nodes("slow", (0, 1), tmp_path)
    # A tier whose nodes have no memory is none.
    tiers(tmp_path, memory_tier4="0-1", memory_tier9="5")
    with pytest.raises(PagehaulError, match=r"all memory is in one tier \(node 0-1\)"):
        tier_nodes("slow", (0, 1), tmp_path)
