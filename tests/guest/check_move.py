# SPDX-License-Identifier: GPL-2.0-only
"""Runs the `move` verb on a real kernel: in a guest of three nodes, the last without CPUs.

    python tests/guest/check_move.py VICTIM

VICTIM is the program made from victim.c. Prints TAP; exits with 1 when a test fails. Writes to the
huge page controls of the running kernel, so that it is for guests.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import changing
import victims
from victims import MB, PAGES, Victim, error_of, expect_nodes, left_of, move_pages, run_verb

from pagehaul.move.addrspace import Process
from pagehaul.move.movepages import Addresses, MovePages, Status

THP = Path("/sys/kernel/mm/transparent_hugepage")
NOBODY = 65534


@contextlib.contextmanager
def hugetlb_pool(node: int, pages: int) -> Iterator[None]:
    """Give `node` a pool of up to `pages` hugetlb pages of 2 MB."""
    pool = Path(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages")
    pool.write_text(str(pages))
    try:
        yield
    finally:
        pool.write_text("0")


def plain_memory_moves_there_and_back() -> None:
    with Victim("base=80", "thp=64") as victim:
        sizes = {"base": 80 * PAGES, "thp": 64 * PAGES}
        for source, target in (("0", "1"), ("1", "0")):
            status, result = move_pages(victim.pid, source, target)
            assert status == 0 and result["complete"], "not complete"
            assert result["moved_bytes"] >= 144 * MB, "moved less than the regions"
            expect_nodes(victim, {kind: {int(target): n} for kind, n in sizes.items()})


@contextlib.contextmanager
def folios_of_64_kb() -> Iterator[None]:
    """Let what asks for huge pages get folios of 64 KB."""
    controls = {THP / "hugepages-2048kB": "never", THP / "hugepages-64kB": "always"}
    before = {each: (each / "enabled").read_text() for each in controls}
    try:
        for each, value in controls.items():
            (each / "enabled").write_text(value)
        yield
    finally:
        for each, text in before.items():
            (each / "enabled").write_text(text.partition("[")[2].partition("]")[0])


@contextlib.contextmanager
def count_addresses() -> Iterator[list[int]]:
    """Note how many addresses each move_pages(2) that moves is given."""
    given: list[int] = []
    original = MovePages.move

    def count(self: MovePages, addresses: Addresses, node: int) -> tuple[int, Status]:
        given.append(len(addresses))
        return original(self, addresses, node)

    MovePages.move = count  # type: ignore[method-assign]
    try:
        yield given
    finally:
        MovePages.move = original  # type: ignore[method-assign]


def every_folio_is_named_once() -> None:
    """One address for each folio, so that the kernel's lists stay whole.

    Beside the region there are a few hundred pages of the program itself.
    """
    with Victim("thp=64") as victim, count_addresses() as given:
        assert move_pages(victim.pid, "0", "1", "--threads", "1")[0] == 0
        expect_nodes(victim, {"thp": {1: 64 * PAGES}})
    assert 32 <= sum(given) < 32 + 600, f"32 huge pages: {given}"
    # Until the end, so that khugepaged makes no huge pages of them on a slow machine.
    with folios_of_64_kb(), Victim("large=64") as victim, count_addresses() as given:
        assert move_pages(victim.pid, "0", "1", "--threads", "1")[0] == 0
        expect_nodes(victim, {"large": {1: 64 * PAGES}})
    assert 1024 <= sum(given) < 1024 + 600, f"1024 folios of 64 KB: {given}"


def a_kernel_without_pagemap_scan() -> None:
    """The way of kernels before 6.7: huge pages are found by moving them."""
    original = Process.__init__

    def without(self: Process, pid: int, proc: Path = Path("/proc")) -> None:
        original(self, pid, proc)
        self._can_scan = False

    Process.__init__ = without  # type: ignore[method-assign]
    try:
        plain_memory_moves_there_and_back()
    finally:
        Process.__init__ = original  # type: ignore[method-assign]


def pinned_and_shared_pages_stay_and_are_named() -> None:
    # Mappings grow downwards: the list of pinned pages fails at the first shared one, and ends the
    # system call before it has come to the base pages.
    with Victim("base=16", "shared=4", "pinned=1", "thp=16") as victim:
        pages = {"base": 16 * PAGES, "pinned": PAGES, "shared": 4 * PAGES, "thp": 16 * PAGES}
        status, result = move_pages(victim.pid, "0", "1")
        assert status == 3 and not result["complete"], "pinned pages are a failure"
        left = left_of(result)
        assert left["EBUSY"] == PAGES, f"pinned: {left}"
        assert left["EACCES"] >= 4 * PAGES, f"shared: {left}"
        where = {kind: {1: n} for kind, n in pages.items()}
        where["pinned"] = {0: PAGES}
        where["shared"] = {0: 4 * PAGES}
        expect_nodes(victim, where)
        status, result = move_pages(victim.pid, "0", "1", "--all")
        assert status == 3 and left_of(result)["EBUSY"] >= PAGES
        assert left_of(result)["EACCES"] == 0
        where["shared"] = {1: 4 * PAGES}
        expect_nodes(victim, where)


def only_shared_pages_left_is_success() -> None:
    with Victim("base=4", "shared=4") as victim:
        status, result = move_pages(victim.pid, "0", "1")
        assert status == 0 and left_of(result)["EACCES"] >= 4 * PAGES
        expect_nodes(victim, {"base": {1: 4 * PAGES}, "shared": {0: 4 * PAGES}})


def pages_are_spread_over_several_nodes() -> None:
    with Victim("base=24", "thp=48") as victim:
        status, _ = move_pages(victim.pid, "0", "1,2")
        assert status == 0
        halves = {"base": {1: 12 * PAGES, 2: 12 * PAGES}, "thp": {1: 24 * PAGES, 2: 24 * PAGES}}
        expect_nodes(victim, halves)
        status, _ = move_pages(victim.pid, "all", "0")
        assert status == 0
        expect_nodes(victim, {"base": {0: 24 * PAGES}, "thp": {0: 48 * PAGES}})


def node_lists_of_one_length_are_paired() -> None:
    with Victim("base=16", "thp=16") as victim:
        move_pages(victim.pid, "0", "1,2")
        status, _ = move_pages(victim.pid, "1-2", "0,1")
        assert status == 0
        half = {0: 8 * PAGES, 1: 8 * PAGES}
        expect_nodes(victim, {"base": half, "thp": half})


def hugetlb_pages_move() -> None:
    """The kernel takes free pages of the destination's pool, and then makes more."""
    with hugetlb_pool(0, 16), hugetlb_pool(1, 8), Victim("hugetlb=32") as victim:
        status, result = move_pages(victim.pid, "0", "1")
        assert status == 0 and result["moved_bytes"] >= 32 * MB
        expect_nodes(victim, {"hugetlb": {1: 32 * PAGES}})


def hugetlb_pages_of_a_file_move_by_several_callers() -> None:
    """A caller that finds the file locked by another one leaves its pages."""
    with hugetlb_pool(0, 64), hugetlb_pool(1, 64), Victim("file=128") as victim:
        for source, target in (("0", "1"), ("1", "0")) * 4:
            status, result = move_pages(victim.pid, source, target, "--threads", "8")
            assert status == 0 and result["moved_bytes"] >= 128 * MB, result
            expect_nodes(victim, {"file": {int(target): 128 * PAGES}})


def a_full_node_is_named() -> None:
    # The pool takes all memory of node 2, but for some MB.
    with hugetlb_pool(2, 100000), Victim("base=48", "thp=48") as victim:
        status, result = move_pages(victim.pid, "0", "2")
        assert status == 3
        left = left_of(result)
        assert left["ENOMEM"] > 48 * PAGES, f"{left}"
        assert left["EBUSY"] == 0, f"{left}"
        victim.check()
        # Pages that do not fit on node 2 find room on node 1.
        status, result = move_pages(victim.pid, "0", "1,2")
        assert status == 0, f"{left_of(result)}"
        for kind, nodes in victim.check().items():
            assert 0 not in nodes, f"{kind}: {nodes}"


def dry_run_moves_nothing() -> None:
    with Victim("base=8", "thp=8") as victim:
        status, result = move_pages(victim.pid, "0", "1", "--dry-run")
        assert status == 0
        assert 16 * MB <= result["found_bytes"] < 24 * MB
        expect_nodes(victim, {"base": {0: 8 * PAGES}, "thp": {0: 8 * PAGES}})


def errors_are_one_line() -> None:
    with Victim("base=4") as victim:
        assert "is not online: the nodes with memory are 0-2" in error_of(victim.pid, "9", "1")
        assert "nothing to do" in error_of(victim.pid, "1", "1")
        assert "not a list of nodes" in error_of(victim.pid, "a", "1")
    assert "there is no process" in error_of(victim.pid, "0", "1")
    assert "no memory of its own" in error_of(2, "0", "1")


def as_nobody(action: Callable[[], None]) -> None:
    """Run `action` in a child without privileges."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "failed without privileges"


def permissions() -> None:
    with Victim("base=4") as victim, Victim("base=4", uid=NOBODY) as own:

        def check() -> None:
            message = error_of(victim.pid, "0", "1")
            assert "no permission to look into process" in message, message
            message = error_of(own.pid, "0", "1", "--all")
            assert "--all needs CAP_SYS_NICE" in message, message
            assert move_pages(own.pid, "0", "1")[0] == 0

        as_nobody(check)
        expect_nodes(own, {"base": {1: 4 * PAGES}})


def cpuset_of_the_process_is_named() -> None:
    group = Path("/sys/fs/cgroup/check_move")
    (group.parent / "cgroup.subtree_control").write_text("+cpuset")
    group.mkdir()
    (group / "cpuset.mems").write_text("0")
    with Victim("base=4") as victim:
        (group / "cgroup.procs").write_text(str(victim.pid))
        assert "does not permit node 1: it permits 0" in error_of(victim.pid, "0", "1")
    group.rmdir()


def several_processes_and_a_tree() -> None:
    with Victim("base=8") as one, Victim("thp=8") as two:
        status, result = move_pages(one.pid, str(two.pid), "0", "1")
        assert status == 0
        assert [each["pid"] for each in result["processes"]] == [one.pid, two.pid]
        expect_nodes(one, {"base": {1: 8 * PAGES}})
        expect_nodes(two, {"thp": {1: 8 * PAGES}})
        # This process is the root of the tree, and leaves itself alone.
        status, result = run_verb("--tree", str(os.getpid()), "1", "0")
        assert status == 0
        assert {each["pid"] for each in result["processes"]} == {one.pid, two.pid}
        expect_nodes(one, {"base": {0: 8 * PAGES}})
        expect_nodes(two, {"thp": {0: 8 * PAGES}})


def a_cgroup_of_processes() -> None:
    group = Path("/sys/fs/cgroup/check_move_group")
    (group / "below").mkdir(parents=True)
    with Victim("base=4") as one, Victim("base=4") as two, Victim("base=4") as other:
        (group / "cgroup.procs").write_text(str(one.pid))
        (group / "below/cgroup.procs").write_text(str(two.pid))
        status, _ = run_verb("--cgroup", group.name, "0", "1")
        assert status == 0
        for victim, node in ((one, 1), (two, 1), (other, 0)):
            expect_nodes(victim, {"base": {node: 4 * PAGES}})
    (group / "below").rmdir()
    group.rmdir()


def limits_are_kept() -> None:
    with Victim("base=48", "thp=16") as victim:
        status, result = move_pages(victim.pid, "0", "1", "--rate", "50")
        assert status == 0
        assert result["seconds"] > 0.8 * 64 * MB / 50e6, f"{result['seconds']} s"
        status, result = move_pages(victim.pid, "1", "0", "--max-stall", "20")
        assert status == 0
        assert result["longest_call_ms"] > 0
        expect_nodes(victim, {"base": {0: 48 * PAGES}, "thp": {0: 16 * PAGES}})
        # Nothing comes to node 1 any more: it is seen long before the time is over.
        began = time.monotonic()
        assert move_pages(victim.pid, "1", "0", "--watch", "60")[0] == 0
        assert time.monotonic() - began < 30


def signals_leave_an_account() -> None:
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with Victim("base=64") as victim:
            words = [str(victim.pid), "0", "1", "--rate", "10", "--json", "--progress", "json"]
            command = [sys.executable, "-m", "pagehaul", "move", *words]
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                assert process.stderr is not None
                while json.loads(process.stderr.readline())["moved_bytes"] == 0:
                    pass
                process.send_signal(number)
                output, _ = process.communicate()
            result = json.loads(output)
            assert process.returncode == result["status"] == status
            assert result["untried_bytes"] > 0 and not result["complete"]
            moved = victim.check()["base"].get(1, 0) * 4096
            # Beside the region there are some pages of the program itself.
            assert moved <= result["moved_bytes"] <= moved + 2 * MB, f"{moved}: {result}"


def the_command_line() -> None:
    with Victim("base=4", "thp=4") as victim:
        command = [sys.executable, "-m", "pagehaul", "move", str(victim.pid), "0", "1"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"# {result.stdout.strip()} {result.stderr.strip()}", flush=True)
        assert result.returncode == 0, "exit status"
        assert result.stdout.startswith("moved "), "report"
        expect_nodes(victim, {"base": {1: 4 * PAGES}, "thp": {1: 4 * PAGES}})


TESTS: list[Callable[[], None]] = [
    plain_memory_moves_there_and_back,
    every_folio_is_named_once,
    a_kernel_without_pagemap_scan,
    pinned_and_shared_pages_stay_and_are_named,
    only_shared_pages_left_is_success,
    pages_are_spread_over_several_nodes,
    node_lists_of_one_length_are_paired,
    hugetlb_pages_move,
    hugetlb_pages_of_a_file_move_by_several_callers,
    a_full_node_is_named,
    dry_run_moves_nothing,
    errors_are_one_line,
    permissions,
    cpuset_of_the_process_is_named,
    several_processes_and_a_tree,
    a_cgroup_of_processes,
    limits_are_kept,
    signals_leave_an_account,
    the_command_line,
    *changing.TESTS,
]


def main() -> int:
    """Run all tests with the victim named on the command line; the exit status."""
    with tempfile.TemporaryDirectory(prefix="victim-") as directory:
        # A copy that an unprivileged user can run, wherever the program was compiled.
        os.chmod(directory, 0o755)
        victims.program = shutil.copy(sys.argv[1], directory)
        return run_tests()


# It joins base pages on the node where most of them were when it looked: if they move before it has
# a huge page there, it takes them back.
_KHUGEPAGED = Path("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")


def run_tests() -> int:
    """Run all tests and print TAP; the exit status."""
    _KHUGEPAGED.write_text("3600000")
    print(f"TAP version 13\n1..{len(TESTS)}")
    failed = 0
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            result = "ok"
        except Exception:
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()))
            result = "not ok"
            failed += 1
        print(f"{result} {number} - {test.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
