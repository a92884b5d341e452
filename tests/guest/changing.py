# SPDX-License-Identifier: GPL-2.0-only
"""Targets that fork, execute another program, end or are swapped out while their pages move.

Each does so before the fifth call that moves pages: some windows are done then, and others not.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from victims import (
    MB,
    PAGES,
    Victim,
    before_call,
    error_of,
    expect_nodes,
    left_of,
    move_pages,
    run_verb,
)

FIFTH = 5
ONE_CALLER = ("--threads", "1")

# Beside its regions a victim has at most so many bytes: the program, and its stack.
PROGRAM = 2 * MB


def a_target_that_is_killed() -> None:
    with Victim("base=64") as victim:

        def kill() -> None:
            victim.process.kill()
            victim.process.wait()

        with before_call(FIFTH, kill):
            message = error_of(victim.pid, "0", "1", *ONE_CALLER)
    assert "ended while its pages were moved" in message, message


def a_process_of_a_tree_that_exits() -> None:
    with Victim("base=64") as one, Victim("base=24") as two:
        with before_call(FIFTH, one.leave):
            status, result = run_verb("--tree", str(os.getpid()), "0", "1", *ONE_CALLER)
        assert status == 0 and result["complete"]
        parts = {each["pid"]: each for each in result["processes"]}
        assert parts[one.pid]["ended"] and not parts[two.pid]["ended"]
        assert 0 < parts[one.pid]["moved_bytes"] < 64 * MB
        expect_nodes(two, {"base": {1: 24 * PAGES}})


def a_target_that_forks() -> None:
    """Pages that it shares with the child from then on stay, unless --all is given."""
    with Victim("base=64", "thp=16") as victim:
        with before_call(FIFTH, lambda: victim.order("fork")):
            status, result = move_pages(victim.pid, "0", "1", *ONE_CALLER)
        assert status == 0
        moved, shared = result["moved_bytes"], left_of(result)["EACCES"] * 4096
        assert 0 < moved < 80 * MB and 0 < shared < 80 * MB + PROGRAM
        assert 80 * MB <= moved + shared <= 80 * MB + PROGRAM
        there = sum(nodes.get(1, 0) for nodes in victim.check().values()) * 4096
        assert there <= moved <= there + PROGRAM, f"{there} of {moved}"
        assert move_pages(victim.pid, "0", "1", "--all")[0] == 0
        expect_nodes(victim, {"base": {1: 64 * PAGES}, "thp": {1: 16 * PAGES}})
        victim.order("join")


def a_child_that_appears() -> None:
    with Victim("base=64") as victim:
        with before_call(FIFTH, lambda: victim.order("fork")):
            words = ("--tree", str(victim.pid), "0", "1", "--all", *ONE_CALLER)
            status, result = run_verb(*words)
        assert status == 0 and result["complete"]
        assert len(result["processes"]) == 2, "the child was not looked at"
        assert result["processes"][0]["pid"] == victim.pid
        expect_nodes(victim, {"base": {1: 64 * PAGES}})
        victim.order("join")


def a_target_that_executes_another_program() -> None:
    with Victim("base=64") as victim:
        with before_call(FIFTH, lambda: victim.order("exec base=24", "ready")):
            status, result = move_pages(victim.pid, "0", "1", *ONE_CALLER)
        assert status == 0
        assert 0 < result["moved_bytes"] < 64 * MB
        assert result["gone_bytes"] >= 64 * MB - result["moved_bytes"], "old memory"
        victim.check()
    with Victim("base=64") as victim:
        with before_call(FIFTH, lambda: victim.order("exec base=24", "ready")):
            words = (*ONE_CALLER, "--watch", "60")
            status, result = move_pages(victim.pid, "0", "1", *words)
        assert status == 0 and result["complete"]
        assert result["found_bytes"] >= (64 + 24) * MB, "the new program was not looked at"
        expect_nodes(victim, {"base": {1: 24 * PAGES}})


@contextlib.contextmanager
def swap_space(size_mb: int) -> Iterator[None]:
    """Have so many MB to swap to: a loop device, since the file systems here take no swap file."""
    file = Path("/run/check_move.swap")
    with file.open("wb") as space:
        os.posix_fallocate(space.fileno(), 0, size_mb * MB)
    device = ""
    try:
        device = _output("losetup", "--find", "--show", str(file))
        _output("mkswap", device)
        _output("swapon", device)
        yield
        _output("swapoff", device)
    finally:
        if device:
            subprocess.run(["losetup", "--detach", device], check=False)
        file.unlink()


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def swapped_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmSwap:"))


def a_target_that_is_swapped_out() -> None:
    with swap_space(192), Victim("base=96", "thp=16") as victim:
        with before_call(FIFTH, lambda: victim.order("swap")):
            status, result = move_pages(victim.pid, "0", "1", *ONE_CALLER)
        assert status == 0 and result["complete"]
        swapped = swapped_bytes(victim.pid)
        assert swapped >= 104 * MB, f"only {swapped} bytes are swapped out"
        settled = result["moved_bytes"] + result["gone_bytes"]
        assert settled + left_of(result).total() * 4096 == result["found_bytes"]
        assert result["gone_bytes"] >= 32 * MB, "the account has what was swapped out"
        assert result["found_bytes"] >= 112 * MB, "all that was there is in the account"
        # The victim gets it all from there, and what comes to node 0 moves.
        pages = {"base": 96 * PAGES, "thp": 16 * PAGES}
        assert {kind: sum(nodes.values()) for kind, nodes in victim.check().items()} == pages
        assert move_pages(victim.pid, "0", "1")[0] == 0
        expect_nodes(victim, {kind: {1: count} for kind, count in pages.items()})


TESTS: list[Callable[[], None]] = [
    a_target_that_is_killed,
    a_process_of_a_tree_that_exits,
    a_target_that_forks,
    a_child_that_appears,
    a_target_that_executes_another_program,
    a_target_that_is_swapped_out,
]
