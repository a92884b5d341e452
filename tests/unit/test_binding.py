# SPDX-License-Identifier: GPL-2.0-only
"""Guests bound to the host's nodes: on pretended hosts, what is chosen and what QEMU is told."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pagehaul.bench.machines.guests import Guests
from pagehaul.bench.machines.hardware import Hardware, sentences
from pagehaul.bench.machines.kinds import KINDS
from pagehaul.bench.machines.places import Place
from pagehaul.errors import PagehaulError
from pagehaul.guest import binding, models, monitor, qemu_options
from pagehaul.guest.binding import Binding, HostNode, Unbound
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Result
from pagehaul.host.nodes import parse_list
from pagehaul.kernel.built import Kernel
from pagehaul.suites import bound as suite

# (CPUs, free MiB, free 2 MB pages) of each node; CPU n and n + HALF are threads of one core, or,
# where they are paired, 2n and 2n + 1.
HALF = 32
TWO = [("0-7,32-39", 16384, 0), ("8-15,40-47", 16384, 0)]
WITH_CXL = [*TWO, ("", 65536, 0)]

Nodes = Sequence[tuple[str, int, int]]


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., Hardware]:
    """Make a host of such nodes: /sys is read as on a real one."""

    def make(
        nodes: Nodes,
        cpus: str = "",
        mems: str = "",
        distances: Sequence[str] = (),
        paired: bool = False,
    ) -> Hardware:
        sysfs, count = tmp_path / "sys", len(nodes)
        (sysfs / "node").mkdir(parents=True)
        for name in ("has_memory", "online"):
            (sysfs / "node" / name).write_text(f"0-{count - 1}\n")
        every = []
        for number, (of_node, free, huge) in enumerate(nodes):
            where = sysfs / "node" / f"node{number}"
            (where / "hugepages/hugepages-2048kB").mkdir(parents=True)
            (where / "hugepages/hugepages-2048kB/free_hugepages").write_text(f"{huge}\n")
            (where / "cpulist").write_text(f"{of_node}\n")
            (where / "meminfo").write_text(
                f"Node {number} MemTotal:       67108864 kB\n"
                f"Node {number} MemFree:        {(free - 1000) * 1024} kB\n"
                f"Node {number} Active(file):   {600 * 1024} kB\n"
                f"Node {number} Inactive(file): {400 * 1024} kB\n"
                f"Node {number} Active(anon):   999999999 kB\n"
            )
            flat = " ".join("10" if other == number else "21" for other in range(count))
            (where / "distance").write_text(f"{distances[number] if distances else flat}\n")
            every += parse_list(of_node) if of_node else []
        for cpu in every:
            where = sysfs / "cpu" / f"cpu{cpu}" / "topology"
            where.mkdir(parents=True)
            apart = f"{cpu % HALF},{cpu % HALF + HALF}"
            pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
            (where / "thread_siblings_list").write_text(f"{pair if paired else apart}\n")
        status = tmp_path / "status"
        status.write_text(f"Name:\tpython\nMems_allowed_list:\t{mems or f'0-{count - 1}'}\n")
        allowed = parse_list(cpus) if cpus else every
        return Hardware(binding.read(sysfs, status, allowed))

    return make


def guests(hardware: Hardware, tmp_path: Path) -> Guests:
    images = {
        name: Kernel(name, tmp_path / name, tmp_path / "bzImage", tmp_path / "config", "7.3")
        for name in ("vanilla", "pagehaul")
    }
    return Guests(tmp_path, images, kvm=True, hardware=hardware)


def bound(hardware: Hardware, tmp_path: Path, kind: str = "parallel", cpus: int = 16) -> Guest:
    return guests(hardware, tmp_path).guest(Place(KINDS[kind], cpus), quick=True)


def words(guest: Guest) -> str:
    return " ".join(qemu_options.machine(guest))


def test_two_nodes_with_cpus(host: Callable[..., Hardware], tmp_path: Path) -> None:
    hardware = host(TWO)
    assert guests(hardware, tmp_path)._kvm_cpus(KINDS["parallel"]) == 16
    guest = bound(hardware, tmp_path)
    assert guest.binding is not None
    assert guest.binding.nodes == (0, 1)
    assert guest.binding.cpus == (*range(8), *range(8, 16))
    told = words(guest)
    for node in (0, 1):
        memory = f"memory-backend-ram,id=ram{node},size=1024M,prealloc=on"
        assert f"-object {memory},host-nodes={node},policy=bind" in told
    assert "dist,src=0,dst=1,val=21" in told and "dist,src=1,dst=0,val=21" in told
    assert "hugetlb" not in told


def test_memory_only_node_is_the_one_without_cpus(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    hardware = host(WITH_CXL, distances=["10 21 14", "21 10 24", "14 24 10"])
    assert guests(hardware, tmp_path)._kvm_cpus(KINDS["tiered"]) == 16
    tiered, plain = (bound(hardware, tmp_path, kind) for kind in ("tiered", "parallel"))
    assert tiered.binding is not None and plain.binding is not None
    # All CPUs are on one node: eight cores, then their siblings.
    assert tiered.binding.cpus == (*range(8), *range(32, 40))
    assert tiered.binding.nodes == (0, 2)
    assert "host-nodes=2,policy=bind" in words(tiered)
    assert "dist,src=0,dst=1,val=14" in words(tiered)
    assert plain.binding.nodes == (0, 1)
    told = hardware.describe(tiered, 2)
    assert (told["slow_with_cpus"], told["smt_siblings"]) == ([], 8)


def test_without_such_a_node_another_one_is_taken(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    hardware = host(TWO)
    guest = bound(hardware, tmp_path, "dies", 8)
    assert guest.binding is not None and guest.binding.nodes == (0, 1)
    assert guest.binding.cpus == tuple(range(8))
    assert hardware.describe(guest, 2)["slow_with_cpus"] == [1]


def test_the_nearest_pair_is_taken(host: Callable[..., Hardware], tmp_path: Path) -> None:
    four = [(f"{4 * n}-{4 * n + 3}", 16384, 0) for n in range(4)]
    far = ["10 32 32 32", "32 10 32 12", "32 32 10 32", "32 12 32 10"]
    guest = bound(host(four, distances=far), tmp_path, cpus=8)
    assert guest.binding is not None and guest.binding.nodes == (1, 3)
    assert guest.binding.cpus == (4, 5, 6, 7, 12, 13, 14, 15)
    assert "dist,src=0,dst=1,val=12" in words(guest)


def test_cores_come_before_siblings(host: Callable[..., Hardware], tmp_path: Path) -> None:
    guest = bound(host([("0-7", 16384, 0), ("8-15", 16384, 0)], paired=True), tmp_path, cpus=10)
    assert guest.binding is not None
    assert guest.binding.cpus == (0, 2, 4, 6, 1, 8, 10, 12, 14, 9)


def test_pretended_nodes_are_no_nearer_than_linux_takes(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    assert "dist,src=0,dst=1,val=11" in words(
        bound(host(TWO, distances=["10 10", "10 10"]), tmp_path)
    )


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (TWO[:1], "the host has 1 node with memory"),
        ([TWO[0], ("", 16384, 0)], "1 node of the host's may be used with 8 CPUs or more"),
        # Two guests of 1 GiB a node take turns, and the host keeps 1 GiB.
        ([TWO[0], ("8-15", 3071, 0)], "free only 16,384 MiB on node 0, 3,071 MiB on node 1"),
        ([TWO[0], ("8-15", 3072, 0)], ""),
    ],
)
def test_unbound_guests_say_why(
    host: Callable[..., Hardware], tmp_path: Path, nodes: Nodes, why: str
) -> None:
    hardware = host(nodes)
    guest = bound(hardware, tmp_path)
    assert (guest.binding is None) is bool(why)
    assert why in hardware.describe(guest, 2).get("not_bound", "")
    assert ("host-nodes" in words(guest)) is not bool(why)


def test_unbound_guests_have_the_cpus_of_the_host(
    host: Callable[..., Hardware], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    one = guests(host(TWO[:1]), tmp_path)
    assert [one._kvm_cpus(KINDS[kind]) for kind in ("parallel", "tiered")] == [6, 6]
    # A guest with two dies has four CPUs at least, and as many on each.
    for count, expected in ((3, 6), (5, 4)):
        nodes = [HostNode(0, tuple(range(count))), HostNode(1, cpuless=True)]
        assert guests(Hardware(nodes), tmp_path)._kvm_cpus(KINDS["tiered"]) == expected
    assert Hardware((), may_bind=False).cpus(Guest(), 16) == 0


def test_memory_of_guests_is_what_both_nodes_hold(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    # 5 GiB a node less 1 are 4 GiB for two guests: each has 2 GiB on each node.
    here = guests(host([TWO[0], ("8-15", 5120, 0), ("", 65536, 0)]), tmp_path)
    guest = here.guest(Place(KINDS["parallel"], 16), quick=False)
    assert guest.memory_mb == 4096 and guest.binding is not None


@pytest.mark.parametrize(("pages", "huge"), [(1023, False), (1024, True)])
def test_huge_pages_are_used_where_there_are_enough(
    host: Callable[..., Hardware], tmp_path: Path, pages: int, huge: bool
) -> None:
    # Node 1 has nothing else: two guests of 1 GiB a node need 1024 pages of 2 MB.
    hardware = host([("0-7", 16384, 0), ("8-15", 1024 if huge else 9000, pages)])
    guest = bound(hardware, tmp_path)
    assert guest.binding is not None and guest.binding.huge == (False, huge)
    expected = "memory-backend-memfd,hugetlb=on,hugetlbsize=2M,id=ram1,size=1024M,prealloc=on"
    assert (f"{expected},host-nodes=1,policy=bind" in words(guest)) is huge
    assert hardware.describe(guest, 2)["on_huge_pages"] == ([1] if huge else [])
    # Those of one node are not all of them.
    assert "2 MB" not in " ".join(sentences(environment(hardware, tmp_path, "parallel")))


def test_memory_on_huge_pages_need_not_be_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pagehaul.host.facts.memory_available_mb", lambda: 1100)
    guest = Guest(memory_mb=2048, binding=Binding((0, 1), (0, 1), (True, False)))
    guest.check_fits()
    with pytest.raises(PagehaulError, match="2048 MiB does not fit"):
        replace(guest, binding=Binding((0, 1), (0, 1), (False, False))).check_fits()


def test_only_cpus_and_nodes_that_the_tool_may_use(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    # Of core 0 it may use the second thread only.
    hardware = host(WITH_CXL, cpus="2-3,8-9,32,34,40", mems="0-1")
    assert [node.cpus for node in hardware.nodes] == [(2, 3, 32, 34), (8, 9, 40)]
    assert [(node.cores, node.cpuless) for node in hardware.nodes] == [(3, False), (2, False)]
    assert guests(hardware, tmp_path)._kvm_cpus(KINDS["parallel"]) == 6
    guest = bound(hardware, tmp_path, cpus=6)
    assert guest.binding is not None
    assert guest.binding.cpus == (2, 3, 32, 8, 9, 40)
    assert hardware.describe(guest, 2)["smt_siblings"] == 1


def test_a_node_whose_cpus_are_forbidden_is_not_one_without(
    host: Callable[..., Hardware],
) -> None:
    assert [node.cpuless for node in host(WITH_CXL, cpus="0-3").nodes] == [False, False, True]


def test_this_host_can_be_read() -> None:
    found = Hardware.here()
    if not found.nodes:
        pytest.skip("this kernel has no NUMA")
    assert {cpu for node in found.nodes for cpu in node.cpus} <= os.sched_getaffinity(0)
    assert any(node.cpus and node.free_mb > 0 for node in found.nodes)
    assert all(node.distances[node.number] == 10 for node in found.nodes)
    # That tells whether QEMU could, too, and changes nothing here. CAP_SYS_NICE is what allows it.
    allowed = re.search(r"^CapEff:\s+(\w+)$", Path("/proc/self/status").read_text(), re.M)
    assert allowed is not None
    code = "from pagehaul.guest import binding; print(binding.may_bind(0), binding.may_bind(999))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split()[1] == "False"
    assert told.stdout.split()[0] == "True" or not int(allowed[1], 16) >> 23 & 1
    assert "default" in Path("/proc/self/numa_maps").read_text()


@pytest.mark.parametrize(
    "wrong", [{"icount": True, "cpus": 1}, {"model": models.load("plain"), "cpus": 2}]
)
def test_guests_of_another_clock_are_not_bound(wrong: dict[str, object]) -> None:
    with pytest.raises(PagehaulError, match="host's clock"):
        Guest(binding=Binding((0, 1), (0, 1), (False, False)), **wrong)  # type: ignore[arg-type]


def test_guests_in_virtual_time_and_of_tcg_stay_as_they_are(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    here = guests(host(TWO), tmp_path)
    for place in (
        Place(KINDS["parallel"], 4, "virtual", "plain"),
        Place(KINDS["icount"], 1, "instructions"),
    ):
        assert here.guest(place, quick=True).binding is None
        here.describe("vanilla", place, Guest(), Result(0, "", "", tmp_path, 1.0, "tcg"))
    assert not sentences(here.environment())
    without = replace(here, kvm=False)
    assert without.guest(Place(KINDS["parallel"], 4), quick=True).binding is None


# Answers as QEMU's monitor does, for a guest whose CPUs are threads of this program.
QEMU = """
import json, socket, sys, threading, time
ids = []
for _ in range(2):
    thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    thread.start()
    ids.append(thread.native_id)
time.sleep(0.3)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
client = server.accept()[0]
def say(what):
    client.sendall(json.dumps(what).encode() + b"\\n")
say({"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}, "package": ""},
             "capabilities": []}})
while data := client.recv(65536):
    asked = json.loads(data)
    cpus = [{"cpu-index": n, "thread-id": ids[n]} for n in (1, 0)]
    said = cpus if asked["execute"] == "query-cpus-fast" else {}
    say({"return": said} | {name: asked[name] for name in asked if name == "id"})
print(*ids, flush=True)
time.sleep(60)
"""


def test_each_cpu_is_pinned(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    first, last = cpus[0], cpus[-1]
    with subprocess.Popen(
        [sys.executable, "-c", QEMU, str(tmp_path / "monitor")], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            monitor.pin(tmp_path, [last, first], lambda: process.poll() is None)
            assert process.stdout is not None
            threads = [int(word) for word in process.stdout.readline().split()]
            assert [os.sched_getaffinity(each) for each in threads] == [{last}, {first}]
            assert os.sched_getaffinity(process.pid) == set(cpus)
        finally:
            process.kill()


def test_failed_pinning_is_an_error_unless_the_guest_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "_STARTS_S", 0.2)
    with pytest.raises(PagehaulError, match="cannot pin"):
        monitor.pin(tmp_path, [0], lambda: True)
    monitor.pin(tmp_path, [0], lambda: False)
    with pytest.raises(PagehaulError, match="too long"):
        monitor.pin(tmp_path / ("x" * 120), [0], lambda: True)


def environment(hardware: Hardware, tmp_path: Path, *kinds: str) -> dict[str, object]:
    here = guests(hardware, tmp_path)
    # Results describe the largest guest of a kind.
    for kind, cpus in itertools.product(kinds, (8, 4)):
        place = Place(KINDS[kind], cpus)
        result = Result(0, "", "", tmp_path, 1.0, "kvm")
        here.describe("vanilla", place, here.guest(place, quick=True), result)
    return here.environment()


def test_results_tell_host_and_binding(
    host: Callable[..., Hardware], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagehaul.host.facts.cpu_model", lambda: "EPYC")
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    found = environment(host(WITH_CXL), tmp_path, "parallel", "tiered")
    assert found["host"] == {
        "cpu": "EPYC",
        "cpus": 32,
        "nodes": [
            {"node": 0, "cpus": 16, "memory_mb": 65536},
            {"node": 1, "cpus": 16, "memory_mb": 65536},
            {"node": 2, "cpus": 0, "memory_mb": 65536},
        ],
    }
    assert sentences(found) == [
        "Measured by KVM on EPYC, 32 CPUs, 3 nodes.",
        "Guest memory is bound to host nodes 0 and 1, and 8 guest CPUs to host CPUs 0-3,8-11.",
        "Guest memory is bound to host nodes 0 and 2, and 8 guest CPUs to host CPUs 0-7.",
    ]


def test_what_is_not_real_is_told(
    host: Callable[..., Hardware], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagehaul.host.facts.cpu_model", lambda: "EPYC")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert sentences(environment(host(TWO[:1]), tmp_path, "parallel", "dies")) == [
        "Measured by KVM on EPYC, 4 CPUs, 1 node.",
        "Distance is not real there: figures compare kernels, not nodes.",
    ]
    assert sentences({"machines": {"parallel": {"accelerator": "tcg"}}}) == []
    assert sentences({}) == []


def test_ordinary_memory_huge_pages_and_reasons_are_told(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    nodes = [("0-5,32-37", 16384, 4096), ("8-15", 16384, 4096)]
    _, first, second = sentences(environment(host(nodes), tmp_path, "tiered", "parallel"))
    assert "in pages of 2 MB" in first and "in pages of 2 MB" in second
    assert "0-5,32-33, 2 of which are second threads of a core; no host node lacks CPUs" in first
    assert "lacks" not in second


def test_some_guests_may_be_bound_and_others_not(
    host: Callable[..., Hardware], tmp_path: Path
) -> None:
    found = environment(host([TWO[0], ("", 65536, 0)]), tmp_path, "parallel", "tiered")
    assert sentences(found)[1:] == [
        "Guest memory is bound to host nodes 0 and 1, and 8 guest CPUs to host CPUs 0-7.",
        "Guests of parallel are not bound to nodes, and their distance is not real: 1 node of the "
        "host's may be used with 4 CPUs or more.",
    ]


def test_a_process_that_may_not_bind_says_so() -> None:
    nodes = [HostNode(n, (2 * n, 2 * n + 1), 2, free_mb=9999, distances={}) for n in (0, 1)]
    hardware = Hardware(nodes, may_bind=False)
    guest = hardware.bind(Guest(), 2)
    assert guest.binding is None and hardware.room_mb() is None
    # A guest of two nodes needs two of the host's.
    assert Hardware(nodes).room_mb() == 2 * nodes[0].room_mb
    assert Hardware(nodes[:1]).room_mb() is None
    assert "may not bind" in hardware.describe(guest, 2)["not_bound"]
    with pytest.raises(Unbound):
        binding.choose([], [1], [256], 1)


def test_what_is_not_bound_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (70, 71, 72):
        (tmp_path / "task" / str(number)).mkdir(parents=True)
    threads = {70: {0, 1}, 71: {1}, 72: {0}}
    monkeypatch.setattr("os.sched_getaffinity", lambda number: threads[number])
    assert suite.cpus_wrong(tmp_path, (1, 0)) == ""
    threads[72] = {0, 1}
    assert "no thread is pinned to [0]" in suite.cpus_wrong(tmp_path, (1, 0))
    half = "7f0000000000 bind:0 anon=131072 dirty=131072 active=0 N0=131072 kernelpagesize_kB=4\n"
    other = "7f1000000000 default anon=131072 dirty=131072 N0=131072 kernelpagesize_kB=4\n"
    huge = "7f2000000000 bind:0 file=/memfd huge dirty=256 N0=256 kernelpagesize_kB=2048\n"
    for text, wrong in (
        (half + half, ""),
        (half + huge, ""),
        (half + other, "512 of 1024 MiB are"),
        (half + half.replace("N0", "N1"), "512 of 1024 MiB are"),
    ):
        (tmp_path / "numa_maps").write_text(text)
        assert suite.memory_wrong(tmp_path, 0) == wrong
