# SPDX-License-Identifier: GPL-2.0-only
"""Which nodes and CPUs of the host a guest is bound to, so that it measures real distances."""

import ctypes
import itertools
import os
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host.nodes import memory_nodes, parse_list

_SYSFS = Path("/sys/devices/system")
_STATUS = Path("/proc/self/status")

# MiB of a node that the host keeps besides what its guests have.
_RESERVE_MB = 1024

# The number of set_mempolicy() on x86-64, and the policy.
_SET_MEMPOLICY = 238
_MPOL_BIND = 2


class Unbound(PagehaulError):
    """A guest that cannot be bound to nodes of the host; the message is a clause that says why."""


@dataclass(frozen=True)
class HostNode:
    """A node of the host whose memory this process may use.

    cpus are those that this process may use, one CPU of each of `cores` cores before their SMT
    siblings; a node that is cpuless has none at all, as CXL memory. free_mb (MiB) is free or page
    cache, huge_mb is in free pages of 2 MB. distances are those to other nodes, by number.
    """

    number: int
    cpus: tuple[int, ...] = ()
    cores: int = 0
    cpuless: bool = False
    memory_mb: int = 0
    free_mb: int = 0
    huge_mb: int = 0
    distances: dict[int, int] = field(default_factory=dict)

    @property
    def room_mb(self) -> int:
        """MiB that it has for guests."""
        return max(self.huge_mb, self.free_mb - _RESERVE_MB)


@dataclass(frozen=True)
class Binding:
    """Where a guest's parts are on the host.

    nodes are the host's node of each of the guest's, and huge says whether that is on huge pages;
    cpus are the host's CPU of each of the guest's. distances are as ACPI has them, by host nodes.
    """

    nodes: tuple[int, ...]
    cpus: tuple[int, ...]
    huge: tuple[bool, ...]
    distances: dict[tuple[int, int], int] = field(default_factory=dict)

    def memory(self, node: int, name: str, size_mb: int) -> str:
        """Return QEMU's object for the memory of a guest's node."""
        where = f"prealloc=on,host-nodes={self.nodes[node]},policy=bind"
        if self.huge[node]:
            kind = "memory-backend-memfd,hugetlb=on,hugetlbsize=2M"
        else:
            kind = "memory-backend-ram"
        return f"{kind},id={name},size={size_mb}M,{where}"

    def distance(self, source: int, target: int, usual: int) -> int:
        """Return the distance of two different nodes of the guest, `usual` where none is known."""
        found = self.distances.get((self.nodes[source], self.nodes[target]), usual)
        # Linux ignores a table with a node as near to another as to itself.
        return max(found, 11)


def read(
    sysfs: Path = _SYSFS, status: Path = _STATUS, allowed: Collection[int] | None = None
) -> list[HostNode]:
    """Return the host's nodes with memory that this process may use; none without NUMA.

    allowed are the CPUs that it may use, None for asking the kernel.
    """
    cpus = os.sched_getaffinity(0) if allowed is None else allowed
    found = re.search(r"^Mems_allowed_list:\s*(\S+)$", status.read_text(), re.M)
    try:
        usable = set(memory_nodes(sysfs / "node"))
    except PagehaulError:
        return []
    if found is not None:
        usable &= set(parse_list(found[1]))
    return [_read_node(sysfs, number, cpus) for number in sorted(usable)]


def _read_node(sysfs: Path, number: int, allowed: Collection[int]) -> HostNode:
    where = sysfs / "node" / f"node{number}"
    all_cpus = _numbers(where / "cpulist")
    ranks = {}
    for cpu in set(all_cpus) & set(allowed):
        threads = _numbers(sysfs / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list")
        ranks[cpu] = [each for each in threads or [cpu] if each in allowed].index(cpu)
    memory = re.findall(r"(\S+):\s+(\d+) kB", (where / "meminfo").read_text())
    mb = {name: int(kb) // 1024 for name, kb in memory}
    huge = where / "hugepages" / "hugepages-2048kB" / "free_hugepages"
    distances = map(int, (where / "distance").read_text().split())
    return HostNode(
        number=number,
        cpus=tuple(sorted(ranks, key=lambda cpu: (ranks[cpu], cpu))),
        cores=list(ranks.values()).count(0),
        cpuless=not all_cpus,
        memory_mb=mb["MemTotal"],
        free_mb=sum(mb.get(each, 0) for each in ("MemFree", "Active(file)", "Inactive(file)")),
        huge_mb=2 * int(huge.read_text()) if huge.exists() else 0,
        distances=dict(zip(_numbers(sysfs / "node" / "online"), distances, strict=True)),
    )


def _numbers(path: Path) -> tuple[int, ...]:
    text = path.read_text().strip() if path.exists() else ""
    return parse_list(text) if text else ()


def may_bind(node: int) -> bool:
    """Whether this process may choose the node of its memory: a container may forbid it."""
    mask = (ctypes.c_ulong * (node // 64 + 1))()
    mask[node // 64] = 1 << node % 64
    words = (_SET_MEMPOLICY, _MPOL_BIND, mask, 64 * len(mask) + 1)
    # The policy is that of a thread, and ends with it.
    with ThreadPoolExecutor(1) as pool:
        refused: int = pool.submit(ctypes.CDLL(None).syscall, *words).result()
    return not refused


def offered(hosts: Sequence[HostNode], nodes: int, memory_only_nodes: int, most: int) -> int:
    """Return how many CPUs a guest bound to `hosts` can have, at most `most`, as many a node.

    nodes are its nodes with CPUs. 0 where it cannot be bound.
    """
    counts = sorted((len(host.cpus) for host in hosts), reverse=True)
    if len(counts) < nodes + memory_only_nodes:
        return 0
    return min(counts[nodes - 1], most // nodes) * nodes


def choose(
    hosts: Sequence[HostNode], cpus: Sequence[int], node_mb: Sequence[int], copies: int
) -> Binding:
    """Return where to bind `copies` guests that take turns, all of them to the same places.

    cpus are how many CPUs each of a guest's first nodes has, node_mb the MiB of each of its nodes:
    those beyond the first ones have memory only. Of all nodes that will do, the nearest are taken:
    the kernel, too, moves memory to near nodes first. For memory only, nodes without CPUs are
    preferred. Raises Unbound where there are no such nodes.
    """
    count = len(cpus)
    found = list(itertools.permutations(hosts, len(node_mb)))
    if not found:
        raise Unbound(f"the host has {_nodes(len(hosts))} with memory")
    found = [
        nodes
        for nodes in found
        if all(len(host.cpus) >= wanted for host, wanted in zip(nodes, cpus, strict=False))
    ]
    if not found:
        least = max(cpus)
        there = sum(len(host.cpus) >= least for host in hosts)
        raise Unbound(f"{_nodes(there)} of the host's may be used with {least} CPUs or more")
    found = [
        nodes
        for nodes in found
        if all(host.room_mb >= mb * copies for host, mb in zip(nodes, node_mb, strict=True))
    ]
    if not found:
        free = ", ".join(f"{host.free_mb:,} MiB on node {host.number}" for host in hosts)
        raise Unbound(f"the host has free only {free}")

    def rank(nodes: Sequence[HostNode]) -> tuple[int, int, list[int]]:
        far = sum(a.distances.get(b.number, 0) for a, b in itertools.combinations(nodes, 2))
        return sum(not host.cpuless for host in nodes[count:]), far, [n.number for n in nodes]

    nodes = min(found, key=rank)
    return Binding(
        tuple(host.number for host in nodes),
        tuple(cpu for host, n in zip(nodes, cpus, strict=False) for cpu in host.cpus[:n]),
        tuple(host.huge_mb >= mb * copies for host, mb in zip(nodes, node_mb, strict=True)),
        {(a.number, b.number): a.distances[b.number] for a in nodes for b in nodes},
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
