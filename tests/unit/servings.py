# SPDX-License-Identifier: GPL-2.0-only
"""What workbench prints, made up."""

from typing import Any


def served(scene_ms: int, waits: list[list[int]], **more: Any) -> dict[str, Any]:
    """What workbench prints of one scene of 512 MB, with 100 ms before and after it."""
    longest = max(time for time, _ in waits) + 5
    return {
        "ns": [scene_ms * 10**6],
        "cpu_ns": [scene_ms * 10**6],
        "server_ns": [5 * 10**6],
        "client_ns": [6 * 10**6],
        "waited_ns": [4 * 10**6],
        "waited_before_ns": [500_000],
        "moved_bytes": [512 << 20],
        "left_bytes": [8192],
        "before_ns": [100 * 10**6],
        "after_ns": [100 * 10**6],
        "window_ns": [500 * 10**6],
        "done_before": [2000],
        "done_during": [scene_ms * 10],
        "done_after": [2000],
        "done_window": [scene_ms * 10],
        "waits_before": [[20_000, 2000]],
        "waits_during": waits,
        "waits_after": [[20_000, 2000]],
        "waits_window": waits,
        "longest_ns": [20_100, longest, 20_100, longest],
        "timeline": [[-1000, 40, 20_000, 20_100], [1000, 30, 30_000, 900_000]],
        "not_moved": 0,
        "statuses": {},
        "bytes_verified": 4096,
        "mismatches": 0,
        "counters": {"migrate_copy.helper_ns": 7_000_000},
        "error": None,
        **more,
    }
