# SPDX-License-Identifier: GPL-2.0-only
"""Machines with many CPUs, caches and nodes, and with nodes without CPUs."""

import shlex

from pagehaul.guest.cprogs import selftests
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.suites.outcomes import Outcome, prefixed
from pagehaul.suites.programs import Program, run_kunit, run_programs
from pagehaul.suites.suite import OURS, Subject, Suite

# Two caches of two cores of two threads on one node, and memory far away from them; and four nodes
# with far more CPUs than a small host has. Movable memory is what can be taken offline.
_DIES = Guest(
    cpus=8,
    nodes=1,
    memory_only_nodes=1,
    topology="sockets=1,dies=2,cores=2,threads=2",
    append=("movablecore=1G",),
)
_NODES = Guest(
    cpus=16,
    nodes=4,
    memory_mb=4096,
    topology="sockets=4,cores=2,threads=2",
    append=("movablecore=2G",),
)

# Kinds of memory that take ways of their own.
_FEW_KINDS = "base,mthp_64k,thp,tmpfs,hugetlb_2m"

# What runs in each: these kinds; and nearly all, but not pages of 1 GB, for which there is no room,
# nor the swap cache, where so many CPUs do not leave every page. And there what else is to be
# right, first in the modes that have most to do with many CPUs, and then some of it in the others.
_RUNS = {
    "dies": (
        _DIES,
        {
            "migrate_topology": "",
            "migrate_content": f"-k {_FEW_KINDS} threads parallel",
        },
    ),
    "nodes": (
        _NODES,
        {
            "migrate_topology": "",
            "migrate_content": "-x hugetlb_1g,swapcache parallel",
            "migrate_status": "off parallel",
            "migrate_events": "threads parallel",
            "migrate_errors": "calls",
            "migrate_pinned": "parallel",
            "migrate_boundary": "parallel",
        },
    ),
    "other modes": (
        _NODES,
        {
            "migrate_content": "-x hugetlb_1g,swapcache threads batch",
            "migrate_status": "batch threads",
            "migrate_events": "off batch",
            "migrate_mlock": "off parallel",
            "migrate_pinned": "threads",
        },
    ),
}

# What only many CPUs show: the other programs run in suites of their own, on fewer.
_SHORT = {
    "dies": _RUNS["dies"],
    "nodes": (
        _NODES,
        {
            "migrate_topology": "",
            "migrate_content": f"-k {_FEW_KINDS} parallel",
        },
    ),
}


def _work(subject: Subject) -> list[Outcome]:
    """Check who helps, and that pages stay right, in each of the guests."""
    tools.require("e2fsprogs", "xfsprogs")
    kernel = build.build(subject.ours, subject.base)
    guests = _SHORT if subject.short else _RUNS
    names = {name for _, programs in guests.values() for name in programs}
    directory = selftests(kernel.tree, "migrate_copy", sorted(names))
    outcomes: list[Outcome] = []
    for name, (guest, runs) in guests.items():
        programs = [
            Program(program, f"{shlex.quote(str(directory / program))} {arguments}")
            for program, arguments in runs.items()
        ]
        suite = f"topology-{name.replace(' ', '-')}"
        for label, found in run_programs(suite, kernel, guest, programs, alone=True).items():
            outcomes += prefixed(f"{name}: {label}: ", found)
    if not subject.short:
        outcomes += prefixed("nodes: ", run_kunit(kernel, _NODES, "topology-kunit"))
    return outcomes


SUITE = Suite(
    "topology",
    170,
    _work,
    of_variants=True,
    kernels=(OURS,),
    left_out=f"on four nodes, all but who helps and the content of {_FEW_KINDS}",
    alone=True,
)
