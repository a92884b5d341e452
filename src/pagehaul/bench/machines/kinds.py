# SPDX-License-Identifier: GPL-2.0-only
"""The kinds of machines that experiments are measured on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagehaul.bench.effort import Effort
from pagehaul.bench.machines import channels, pool, postgres
from pagehaul.guest.machine import Guest
from pagehaul.kernel.built import Kernel

# In virtual time a run gives the same figures as the last one. Its repetitions differ, by which CPU
# comes first to a lock or to the last folio: the median of three is that of the usual course.
_LEAST_US = 10_000
_VIRTUAL_QUICK = Effort(1, 1, 320, 3, 3, 3600.0, at_least_us=_LEAST_US)
_VIRTUAL_FULL = Effort(1, 1, 2048, 2, 3, 8 * 3600.0, at_least_us=2 * _LEAST_US)
_FAULTS_QUICK = Effort(1, 1, 1, 2, 2, 3600.0)
_FAULTS_FULL = Effort(1, 1, 1, 5, 5, 4 * 3600.0)
# A server does not do the same twice, nor do helpers beside it: the median of three scenes is
# within 5% of that of another run.
_VIRTUAL_SERVING = (Effort(1, 1, 1, 3, 3, 2 * 3600.0), Effort(1, 1, 1, 7, 7, 8 * 3600.0))
_VIRTUAL = (_VIRTUAL_QUICK, _VIRTUAL_FULL)
_VIRTUAL_FAULTS = (_FAULTS_QUICK, _FAULTS_FULL)

# So little that all of a node can be filled quickly, and compilers have room.
_FAULTS_MB = 1024

# A node holds the server, and room for what moves there, or what a neighbour or a database has.
_SERVING_MB = 2560
_LARGE_MB = 4096
# Scenes fill what must not stay free, so there is little memory.
_SMALL_MB = 1280

# The caches of two dies have a CPU each besides that of the caller.
_DIES_CPUS = 4

_COUNTED = "instructions are counted in a guest only"


def _as_it_is(guest: Guest, cpus: int) -> Guest:
    del cpus
    return guest


def _with_dies(guest: Guest, cpus: int) -> Guest:
    dies = 2 if cpus % 2 == 0 else 1
    topology = f"sockets=1,dies={dies},cores={cpus // dies},threads=1"
    return replace(guest, nodes=1, memory_only_nodes=1, topology=topology)


def _with_channels(guest: Guest, cpus: int) -> Guest:
    # All nodes have as many CPUs, and all channels one of their own.
    more = channels.COUNT + cpus % 2 if guest.model is not None else 0
    guest = replace(guest, cpus=cpus + more)
    device = channels.device_cpus(guest, cpus)
    guest = replace(guest, append=(*guest.append, f"isolcpus=domain,{device}"))
    return guest if guest.model is None else replace(guest, device_cpus=device)


@dataclass(frozen=True)
class Kind:
    """A kind of machine.

    quick and full are how often things are measured there, virtual the same for virtual time. One
    that is counting has one CPU that counts its instructions; if it counts_moves, they are those of
    the move, or of the load, and of nothing besides. program is the benchmark program that runs
    there, commands are those of the host that it runs, and files those that it needs besides.
    memory_mb is what a guest has in MiB, 0 for what there is room for; with gigantic, a large one
    has pages of 1 GB as well. least_cpus are those that a guest has at least whose CPUs are threads
    of the host. shape makes a guest of so many CPUs such a machine, and wrap a command that runs
    another one there, on Pagehaul's kernel. One that is on_host can be a real machine; why_not says
    what that lacks otherwise.
    """

    name: str
    quick: Effort
    full: Effort
    virtual: tuple[Effort, Effort] = _VIRTUAL
    counting: bool = False
    counts_moves: bool = False
    program: str = "movebench"
    memory_mb: int = 0
    gigantic: bool = False
    least_cpus: int = 2
    commands: tuple[str, ...] = ()
    files: Callable[[], list[Path]] = list
    shape: Callable[[Guest, int], Guest] = _as_it_is
    wrap: Callable[[Kernel, Guest, int, Sequence[str]], list[str]] | None = None
    on_host: bool = False
    why_not: str = "this machine cannot be what it needs"

    def effort(self, clock: str, *, quick: bool) -> Effort:
        """Return how often things are measured there by a clock, see Place."""
        if clock == "virtual":
            return self.virtual[0] if quick else self.virtual[1]
        return self.quick if quick else self.full


# CPUs that run at once.
PARALLEL = Kind(
    "parallel",
    Effort(2, 3, 48, 3, 18, 900.0),
    Effort(4, 3, 1024, 3, 24, 7200.0),
    gigantic=True,
    on_host=True,
)
# One CPU that counts its instructions.
ICOUNT = Kind(
    "icount",
    Effort(1, 1, 4, 15, 50, 600.0, each_counts=True),
    Effort(2, 1, 4, 15, 50, 3600.0, each_counts=True),
    counting=True,
    counts_moves=True,
    why_not=_COUNTED,
)
# The same, with others that want it.
BUSY_ICOUNT = Kind(
    "busy-icount",
    Effort(1, 1, 64, 5, 9, 900.0),
    Effort(1, 1, 256, 9, 25, 7200.0),
    counting=True,
    why_not=_COUNTED,
)
# CPUs of two dies on the first node, and slower memory on a second one.
DIES = Kind(
    "dies",
    Effort(1, 3, 64, 3, 6, 600.0),
    Effort(2, 3, 1024, 3, 24, 3600.0),
    shape=_with_dies,
    least_cpus=_DIES_CPUS,
    on_host=True,
)
# The same as PARALLEL, with DMA channels.
DMA = Kind(
    "dma",
    Effort(1, 3, 64, 3, 6, 600.0),
    Effort(2, 3, 1024, 3, 24, 7200.0),
    gigantic=True,
    shape=_with_channels,
    wrap=channels.loaded,
    why_not="dcbm is not loaded",
)
# The same as PARALLEL, with the engine mtcopy.
POOL = Kind(
    "pool",
    Effort(1, 3, 64, 3, 6, 600.0),
    Effort(2, 3, 1024, 3, 24, 7200.0),
    wrap=pool.loaded,
    why_not="mtcopy is not loaded",
)
# CPUs that run at once, with little memory, for faultbench.
FAULTING = Kind(
    "faults",
    Effort(1, 2, 1, 2, 2, 900.0),
    Effort(2, 5, 1, 10, 10, 7200.0),
    program="faultbench",
    memory_mb=_FAULTS_MB,
    virtual=_VIRTUAL_FAULTS,
)
# One CPU that counts its instructions, for faultbench.
FAULT_ICOUNT = Kind(
    "fault-icount",
    Effort(1, 1, 1, 5, 5, 600.0),
    Effort(1, 1, 1, 10, 10, 3600.0),
    program="faultbench",
    counting=True,
    counts_moves=True,
    why_not=_COUNTED,
)

# CPUs that run at once, with servers and their clients.
SERVING = Kind(
    "serving",
    Effort(1, 1, 1, 1, 1, 3600.0),
    Effort(1, 1, 1, 3, 3, 7200.0),
    program="workbench",
    memory_mb=_SERVING_MB,
    virtual=_VIRTUAL_SERVING,
    commands=("redis-check-rdb", "memcached", "migratepages"),
    why_not="it disturbs a machine, and needs a guest",
)

# The same with CPUs on the first node alone, and slower memory on the other.
TIERED = replace(SERVING, name="tiered", shape=_with_dies, least_cpus=_DIES_CPUS)

# The same with less memory, most of which a scene fills.
FILLED = replace(TIERED, name="filled", memory_mb=_SMALL_MB)

# The same with PostgreSQL, which keeps the pages of its table in files as well, or with room for
# memory in pieces.
DATABASE = replace(SERVING, name="database", memory_mb=_LARGE_MB, files=postgres.files)

# The same with room for a neighbour, whose memory moves.
NEIGHBOURS = replace(SERVING, name="neighbours", memory_mb=_LARGE_MB)

_MOVING = (PARALLEL, ICOUNT, BUSY_ICOUNT, DIES, DMA, POOL)
_SERVERS = (SERVING, TIERED, FILLED, DATABASE, NEIGHBOURS)
KINDS = {kind.name: kind for kind in (*_MOVING, FAULTING, FAULT_ICOUNT, *_SERVERS)}
