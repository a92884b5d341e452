# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's options for the machine that a guest is."""

import os
from pathlib import Path

from pagehaul.guest.machine import MODULE_MB, Guest


def machine(guest: Guest) -> list[str]:
    """Qemu's options for processors, memory and nodes."""
    options: list[str] = []
    if guest.accel == "tcg":
        # With erms and fsrm the kernel copies by `rep movsb`, which TCG runs byte by byte: nothing
        # could be concluded from such copies.
        cpu = "max,-erms,-fsrm"
        if guest.model is not None:
            # The simulator knows memory by where the kernel maps it, which five levels of page
            # tables would move. With monitor, idle CPUs spin.
            cpu = "max,-erms,-fsrm,-la57,-monitor"
        if guest.model is not None or "dies=" in (guest.topology or ""):
            # Linux looks for dies where qemu describes them only on an Intel CPU, and copies pages
            # by string instructions on this one. QEMU 10.0 breaks off when the guest's firmware
            # asks for dies, by a leaf above this level; the kernel finds caches without it.
            cpu += ",level=13,vendor=GenuineIntel"
        options += ["-cpu", cpu]
        options += ["-accel", f"tcg,thread={'single' if guest.icount else 'multi'}"]
        if guest.icount:
            options += ["-icount", "shift=0,sleep=off"]
    cpus = guest.node_cpus()
    for node, size in enumerate(guest.node_memory_mb()):
        # The first touch of a page on the host costs more than its migration in the guest.
        memory = f"memory-backend-ram,id=ram{node},size={size}M,prealloc=on"
        if guest.binding is not None:
            memory = guest.binding.memory(node, f"ram{node}", size)
        options += ["-object", memory]
        described = f"node,nodeid={node},memdev=ram{node}"
        if node < len(cpus) and cpus[node]:
            described += f",cpus={cpus[node].start}-{cpus[node].stop - 1}"
        if guest.memory_only_nodes:
            # The node with CPUs that is nearest: itself, or the first one.
            nearest = node if node < len(cpus) and cpus[node] else 0
            described += f",initiator={nearest}"
        options += ["-numa", described]
    if guest.modules:
        options += _modules(guest)
    if guest.iommu:
        # What comes before it on the command line, as the host's files, does without it.
        for device in (guest.iommu, "pci-testdev", "pci-testdev"):
            options += ["-device", device]
    total = guest.nodes + guest.memory_only_nodes
    if guest.memory_only_nodes:
        options += _performance(guest)
    for source in range(total):
        for target in range(total):
            if source != target:
                far = max(source, target) >= guest.nodes
                distance = 40 if far else 20
                if guest.binding is not None:
                    distance = guest.binding.distance(source, target, distance)
                options += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return options


def _modules(guest: Guest) -> list[str]:
    """Qemu's options for memory that the guest's kernel can have taken out of the machine."""
    # Together with the size, which vng gives.
    options = ["-m", f"slots={guest.modules},maxmem={guest.total_mb()}M"]
    for number in range(guest.modules):
        options += ["-object", f"memory-backend-ram,id=module{number},size={MODULE_MB}M"]
        options += ["-device", f"pc-dimm,id=dimm{number},memdev=module{number},node=0"]
    return options


def _performance(guest: Guest) -> list[str]:
    """Qemu's options for the tables (HMAT) by which the kernel puts memory into tiers."""
    options = ["-machine", "hmat=on"]
    for initiator in guest.nodes_with_cpus():
        for target in range(guest.nodes + guest.memory_only_nodes):
            slow = target >= guest.nodes
            described = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
            latency, bandwidth = (300, "20G") if slow else (100, "60G")
            options += ["-numa", f"{described},data-type=access-latency,latency={latency}"]
            options += ["-numa", f"{described},data-type=access-bandwidth,bandwidth={bandwidth}"]
    return options


def ports(work: Path, device: str) -> list[str]:
    """Qemu's options for the command's streams, each a named pipe in `work`, on a `device`."""
    options = ["-device", f"{device},id=pagehaul"]
    for name in ("stdout", "stderr", "status"):
        os.mkfifo(work / name)
        path = str(work / name).replace(",", ",,")
        options += ["-chardev", f"file,id=pagehaul-{name},path={path}"]
        port = f"virtserialport,bus=pagehaul.0,chardev=pagehaul-{name},name=pagehaul.{name}"
        options += ["-device", port]
    return options
