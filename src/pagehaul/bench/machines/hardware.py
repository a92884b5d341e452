# SPDX-License-Identifier: GPL-2.0-only
"""Guests of KVM bound to the nodes of the host, and what results say of that."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pagehaul.guest import binding
from pagehaul.guest.binding import Binding, HostNode, Unbound
from pagehaul.guest.machine import Guest
from pagehaul.host import facts
from pagehaul.host.nodes import format_nodes


@dataclass(frozen=True)
class Hardware:
    """The host's nodes, and whether memory may be bound to them."""

    nodes: Sequence[HostNode] = ()
    may_bind: bool = True

    @classmethod
    def here(cls) -> "Hardware":
        """Return this host as it is now."""
        nodes = binding.read()
        return cls(nodes, bool(nodes) and binding.may_bind(nodes[0].number))

    def cpus(self, guest: Guest, most: int) -> int:
        """Return how many CPUs such a guest has if it is bound, at most `most`; 0 if it is not."""
        if not self.may_bind:
            return 0
        return binding.offered(self.nodes, guest.nodes, guest.memory_only_nodes, most) // 2 * 2

    def room_mb(self) -> int | None:
        """Return the MiB that guests of two equal nodes can have in all; None if none is bound."""
        rooms = sorted((node.room_mb for node in self.nodes if node.cpus), reverse=True)
        return 2 * rooms[1] if self.may_bind and len(rooms) > 1 else None

    def bind(self, guest: Guest, copies: int) -> Guest:
        """Return a guest of KVM, bound if possible; `copies` of it have their memory at once."""
        try:
            return replace(guest, binding=self._choose(guest, copies))
        except Unbound:
            return guest

    def describe(self, guest: Guest, copies: int) -> dict[str, Any]:
        """Return, for results, how a guest of KVM is bound, or why it is not."""
        try:
            bound = guest.binding or self._choose(guest, copies)
        except Unbound as why:
            return {"not_bound": str(why)}
        cpuless = {node.number for node in self.nodes if node.cpuless}
        taken = [len(set(node.cpus) & set(bound.cpus)) for node in self.nodes]
        cores = [node.cores for node in self.nodes]
        return {
            "host_nodes": list(bound.nodes),
            "host_cpus": format_nodes(bound.cpus),
            "pinned_cpus": len(bound.cpus),
            "smt_siblings": sum(max(0, n - of) for n, of in zip(taken, cores, strict=True)),
            "on_huge_pages": [n for n, huge in zip(bound.nodes, bound.huge, strict=True) if huge],
            "slow_with_cpus": [n for n in bound.nodes[guest.nodes :] if n not in cpuless],
        }

    def host(self) -> dict[str, Any]:
        """Return, for results, what the host is; nothing that says which machine, or whose."""
        nodes = [
            {"node": node.number, "cpus": len(node.cpus), "memory_mb": node.memory_mb}
            for node in self.nodes
        ]
        return {"cpu": facts.cpu_model(), "cpus": os.cpu_count(), "nodes": nodes}

    def _choose(self, guest: Guest, copies: int) -> Binding:
        if not self.may_bind:
            raise Unbound("this process may not bind memory to a node")
        cpus = [len(each) for each in guest.node_cpus()]
        return binding.choose(self.nodes, cpus, guest.node_memory_mb(), copies)


def sentences(environment: Mapping[str, Any]) -> list[str]:
    """Return what the environment of results says of host and binding; nothing without KVM.

    Two or three sentences: the host and what is bound, and what is not as real as it looks.
    """
    kinds: Mapping[str, Mapping[str, Any]] = environment.get("machines", {})
    bound = [kind for kind in kinds.values() if "host_nodes" in kind]
    unbound = {name: kind["not_bound"] for name, kind in kinds.items() if "not_bound" in kind}
    if not bound and not unbound:
        return []
    host: Mapping[str, Any] = environment.get("host", {})
    nodes = len(host.get("nodes", []))
    found = [
        f"Measured by KVM on {host.get('cpu')}, {host.get('cpus')} CPUs, {_count(nodes, 'node')}."
    ]
    found += dict.fromkeys(map(_bound, bound))
    if nodes < 2:
        found.append("Distance is not real there: figures compare kernels, not nodes.")
    elif unbound:
        which = f" of {' and '.join(unbound)}" if bound else ""
        why = "; ".join(dict.fromkeys(unbound.values()))
        found.append(
            f"Guests{which} are not bound to nodes, and their distance is not real: {why}."
        )
    return found


def _bound(kind: Mapping[str, Any]) -> str:
    nodes = kind["host_nodes"]
    text = f"Guest memory is bound to host nodes {' and '.join(map(str, nodes))}"
    if kind["on_huge_pages"] == nodes:
        text += " in pages of 2 MB"
    text += f", and {_count(kind['pinned_cpus'], 'guest CPU')} to host CPUs {kind['host_cpus']}"
    if kind["smt_siblings"]:
        text += f", {kind['smt_siblings']} of which are second threads of a core"
    if kind["slow_with_cpus"]:
        text += "; no host node lacks CPUs, so the slow tier is ordinary memory"
    return f"{text}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
