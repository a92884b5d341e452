# SPDX-License-Identifier: GPL-2.0-only
"""The machine that a guest is."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.guest.binding import Binding
from pagehaul.guest.models import Model
from pagehaul.host import facts
from pagehaul.kernel.arches import X86_64

# What can be between devices and memory, by QEMU's name.
IOMMUS = ("intel-iommu", "virtio-iommu-pci")

# MiB of a module of memory: of a block, as the kernel counts.
MODULE_MB = 128


@dataclass(frozen=True)
class Guest:
    """The machine to boot.

    cpus are spread evenly over the first `nodes` nodes, whole runs of neighbours to one node, and
    memory_mb (MiB) evenly over all nodes; memory_only_nodes come after those with CPUs, further
    away from every other node, as CXL memory is. modules of MODULE_MB each are on the first node
    besides, and can be taken out while the guest runs. topology is the tail of qemu's -smp, such as
    "sockets=1,dies=2,cores=2,threads=1". accel "auto" is KVM where a guest really boots on it, else
    TCG. icount counts one nanosecond an instruction, on one CPU under TCG. With a model the guest
    runs in virtual time, as that machine; profile is then a file into which the simulator writes
    where the time went. device_cpus is a list of CPUs, as Linux writes them, that are parts of a
    device: they are fast, since the device's driver says how long things take. With an iommu, one
    of IOMMUS, the machine has two devices for tests, pci-testdev, behind it. append is for the
    kernel command line. With a binding the guest's nodes and CPUs are bound to those of the host
    that it names.
    """

    cpus: int = 2
    nodes: int = 2
    memory_only_nodes: int = 0
    modules: int = 0
    memory_mb: int = X86_64.memory_mb
    topology: str | None = None
    accel: str = "auto"
    icount: bool = False
    append: tuple[str, ...] = ()
    model: Model | None = None
    profile: Path | None = None
    device_cpus: str = ""
    iommu: str = ""
    binding: Binding | None = None

    def __post_init__(self) -> None:
        """Raise PagehaulError for a machine that cannot be."""
        if self.cpus < 1:
            raise PagehaulError("a guest needs at least one CPU")
        if self.nodes < 1 or self.memory_only_nodes < 0:
            raise PagehaulError("a guest needs at least one node with CPUs")
        if self.modules < 0:
            raise PagehaulError("a guest has no fewer than 0 modules of memory")
        if self.iommu and self.iommu not in IOMMUS:
            raise PagehaulError(f"unknown IOMMU {self.iommu!r}: use {' or '.join(IOMMUS)}")
        if self.accel not in ("auto", "kvm", "tcg"):
            raise PagehaulError(f"unknown accelerator {self.accel!r}: use auto, kvm or tcg")
        if self.icount and (self.cpus != 1 or self.accel == "kvm"):
            raise PagehaulError("counting instructions needs one CPU and TCG")
        if self.model is not None and (self.icount or self.accel == "kvm"):
            raise PagehaulError("virtual time needs TCG, and not icount")
        if self.binding is not None and self.clock != "host":
            raise PagehaulError("only a guest on the host's clock can be bound to the host's nodes")
        if self.profile is not None and self.model is None:
            raise PagehaulError("only a guest in virtual time has a profile")
        if self.memory_mb < 256 * (self.nodes + self.memory_only_nodes):
            raise PagehaulError("a guest needs at least 256 MiB a node")
        if self.topology is not None and not re.fullmatch(r"\w+=\d+(,\w+=\d+)*", self.topology):
            raise PagehaulError(
                f"topology {self.topology!r} is not like sockets=1,dies=2,cores=2,threads=1"
            )

    @property
    def clock(self) -> str:
        """What the guest's time is: "virtual", "instructions", or "host" for that of the host."""
        if self.model is not None:
            return "virtual"
        return "instructions" if self.icount else "host"

    def total_mb(self) -> int:
        """MiB of all that it has, modules and all."""
        return self.memory_mb + self.modules * MODULE_MB

    def check_fits(self) -> None:
        """Raise PagehaulError when this machine cannot hold it, which is allocated at once."""
        available = facts.memory_available_mb()
        # Huge pages in the host's pool are not available, and need not be.
        huge = self.binding.huge if self.binding else ()
        needed = self.total_mb() - sum(itertools.compress(self.node_memory_mb(), huge))
        if available and needed > available:
            raise PagehaulError(
                f"a guest of {needed} MiB does not fit into the {available} "
                "MiB that this machine has free; give it less memory"
            )

    def node_memory_mb(self) -> list[int]:
        """MiB of each node; multiples of 128, the size of a memory block, but for the last."""
        count = self.nodes + self.memory_only_nodes
        share = self.memory_mb // count // 128 * 128
        return [share] * (count - 1) + [self.memory_mb - share * (count - 1)]

    def node_cpus(self) -> list[range]:
        """CPUs of each node that may have some; empty where there are more nodes than CPUs."""
        bounds = [-(-self.cpus * node // self.nodes) for node in range(self.nodes + 1)]
        return [range(low, high) for low, high in itertools.pairwise(bounds)]

    def nodes_with_cpus(self) -> list[int]:
        """Nodes that have CPUs: all that may, but where there are more of these than CPUs."""
        return [node for node, cpus in enumerate(self.node_cpus()) if cpus]

    def default_topology(self) -> str:
        """Tail of qemu's -smp: a socket a node, so that no two nodes share a cache.

        A model's sockets have a die for each last-level cache, or as many as divide their CPUs.
        """
        sockets = len(self.nodes_with_cpus())
        if self.cpus % sockets:
            sockets = self.cpus
        cores = self.cpus // sockets
        caches = 1 if self.model is None else self.model.node_caches
        dies = max(number for number in range(1, caches + 1) if cores % number == 0)
        if dies == 1:
            return f"sockets={sockets},cores={cores},threads=1"
        return f"sockets={sockets},dies={dies},cores={cores // dies},threads=1"

    def cache_cpus(self) -> int:
        """Return how many CPUs share a last-level cache, which a die has, or else a socket."""
        topology = self.topology or self.default_topology()
        numbers = dict(part.split("=") for part in topology.split(","))
        return int(numbers.get("cores", 1)) * int(numbers.get("threads", 1))
