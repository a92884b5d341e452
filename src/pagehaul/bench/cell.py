# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment is made of: shapes of memory, cells, and the size of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pagehaul.bench.row import MODE, PARTS

BASE_PAGE = 4096
PAGE_KB = BASE_PAGE // 1024
PMD_KB = 2048

# Where the knobs of the engine of DMA channels are, below those of Pagehaul.
DCBM = "engines/dcbm"
# The same for the engine that is a pool of threads.
MTCOPY = "engines/mtcopy"

GIGANTIC_KB = 1024 * 1024

# Of Pagehaul with one caller, in the order in which they are measured.
METHODS = ("serial", "batch", "threads", "parallel")

# MiB of one cell in virtual time: the moves of one caller take more than 5 ms.
VIRTUAL_QUICK_MB = 64
VIRTUAL_FULL_MB = 256


# Services without clients: threads that work on their memory.
PROGRAMS = ("threads", "gups", "bfs")

# The way in which the kernel moves what it sees fit, and its mode where memory has tiers.
BALANCING = "balancing"
TIERING = 2


@dataclass(frozen=True)
class Shape:
    """Memory to move: `folios` folios of `folio_kb` KiB each, transparent or hugetlb."""

    folio_kb: int
    folios: int
    hugetlb: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of all folios together."""
        return self.folio_kb * 1024 * self.folios

    @property
    def returns(self) -> bool:
        """Whether its folios can be moved back as they are: others may be split by that."""
        return self.hugetlb or self.folio_kb in (BASE_PAGE // 1024, PMD_KB)


@dataclass(frozen=True)
class Load:
    """What faultbench does instead of moving memory.

    kind is "compaction", faults for huge pages on a node whose free memory is in pieces; "pft",
    base pages faulted in and freed; or "compile", commands of the file `commands`. mlocked says
    whether what is in the way of compaction is, and drain for which folios migration drains the
    LRU batches ("never", "mlocked", "mapped"), None for what the kernel does by itself. thp are
    the sizes of transparent huge pages in KiB, None for those that are set.
    """

    kind: str
    mlocked: bool = False
    drain: str | None = None
    thp: tuple[int, ...] | None = None
    commands: str | None = None

    def words(self) -> list[str]:
        """Return the options of faultbench for it."""
        words = [f"--kind={self.kind}"]
        if self.mlocked:
            words.append("--mlocked")
        if self.drain:
            words.append(f"--drain={self.drain}")
        if self.thp is not None:
            words.append(f"--thp={','.join(map(str, self.thp))}")
        if self.commands:
            words.append(f"--commands={self.commands}")
        return words


@dataclass(frozen=True)
class Scene:
    """What workbench does: a server serves while memory moves.

    name is "drain", the server's own memory moves; or "neighbour", that of a process in another
    cgroup does, neighbour_mb MiB; or "promoter", where that process has threads which come to use
    the half of it that is slow. The server has mb MiB of values and gets `rate` requests a
    second, whenever they are due, or with 0 the next ones as soon as it has answered. way is who
    moves: "migratepages", `callers` "callers" of move_pages(2), "move" with the calls of `pagehaul
    move`, "cpuset" by cpuset.mems, or "offlining" of the memory; or the kernel moves what it sees
    fit: "demotion" of amount_mb MiB as an agent wants, "promotion" of as many that are used in a
    slower tier, or "compaction" until somebody can have as many in huge pages. It is named in
    tables where the method has another one, too. In the way "balancing" nothing is to move: what
    counts is the work done while the kernel balances memory in the mode `balancing`, with fast_mb
    MiB free on the first node, and the last slow_mb of the program's on the other one. With zipf,
    some keys of the server are asked for far more often than others. With huge, what the processes
    of the server share is in hugetlb pages. A service of PROGRAMS has so many threads, with 0 one
    for each CPU of its node; `cold` of 100 items that they touch are in the second half of the
    memory.
    """

    name: str
    service: str
    way: str
    mb: int
    callers: int = 1
    rate: int = 0
    neighbour_mb: int = 0
    named: bool = False
    huge: bool = False
    amount_mb: int = 0
    threads: int = 0
    cold: int = 10
    fast_mb: int = 0
    slow_mb: int = 0
    balancing: int = TIERING
    zipf: bool = False

    def words(self) -> list[str]:
        """Return the options of workbench for it."""
        words = [f"--scene={self.name}", f"--service={self.service}", f"--way={self.way}"]
        words += [f"--mb={self.mb}", f"--callers={self.callers}", f"--rate={self.rate}"]
        words += [f"--{name}" for name in ("huge", "zipf") if getattr(self, name)]
        numbers = {
            "neighbour-mb": self.neighbour_mb,
            "amount-mb": self.amount_mb,
            "threads": self.threads,
            "fast-mb": self.fast_mb,
            "slow-mb": self.slow_mb,
        }
        words += [f"--cold={self.cold}"] if self.service in PROGRAMS else []
        words += [f"--balancing={self.balancing}"] if self.way == BALANCING else []
        return words + [f"--{name}={number}" for name, number in numbers.items() if number]


@dataclass(frozen=True)
class Cell:
    """One measurement: a shape moved by one method on one kernel.

    method is "serial" (one caller; Pagehaul's feature off), "callers" (`threads` callers of the
    system call on disjoint ranges; Pagehaul's feature off), "batch" (the caller alone copies whole
    batches), "threads" (`threads` CPUs share the copies, the caller's among them), "parallel" (they
    take whole batches besides, as is the default), "pool" (the caller leaves the copies to
    `threads` threads of mtcopy), "dma" (it leaves them to `channels` channels of dcbm), "hybrid"
    (it copies as well) or "faults" (`threads` threads do what the load says, and nothing is moved
    by a call). An optional cell is left out, with a note, where the machine cannot provide its
    memory, or its channels. asks has what is to be measured besides, by the names of the measures,
    and how: Measure.ask() adds to it. settings are knobs besides those that make the method.
    condition names what else differs between cells that are not to be compared with each other.
    With a reason, which movebench knows, the kernel is brought to move the memory; with a scene,
    workbench does. nodes are those between which it moves, None for the machine's own. caller and
    helpers are "source", "target" or None. With a caller, all moves go one way, so that the first
    CPU, which is the caller's, is on that node of the move. With helpers, only CPUs of that node
    help.
    """

    shape: Shape
    kernel: str
    method: str
    threads: int = 1
    channels: int = 0
    optional: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""
    reason: str | None = None
    nodes: tuple[int, int] | None = None
    caller: str | None = None
    helpers: str | None = None
    load: Load | None = None
    scene: Scene | None = None
    asks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def knobs(self) -> dict[str, str]:
        """Settings in /sys/kernel/mm/migrate_copy: those that make the method, and its own."""
        if self.kernel == "vanilla":
            return {}
        if self.method in ("serial", "callers"):
            return {"enabled": "0"}
        if self.kernel in PARTS:
            # The first has no knobs, the others no constants that can be changed.
            more = self.kernel != PARTS[0]
            return {"enabled": "1", "max_helpers": str(self.threads - 1)} if more else {}
        return {
            "enabled": "1",
            "max_helpers": "0" if self.method == "pool" else str(self.threads - 1),
            "parallel_batches": "1" if self.method == "parallel" else "0",
            # Then CPUs leave copies to engines.
            **({"vm.mt_page_copy": "0"} if self.method in ("pool", "dma") else {}),
            **self.settings,
            **self._engine_knobs,
        }

    @property
    def told_settings(self) -> dict[str, str]:
        """Settings by which its row is told from others: knobs, who moves, where helpers are."""
        by = {"by": self.scene.way} if self.scene is not None and self.scene.named else {}
        if self.scene is not None and self.scene.balancing != TIERING:
            by[MODE] = str(self.scene.balancing)
        helpers = {"helpers": self.helpers} if self.helpers is not None else {}
        return {**self.settings, **by, **helpers}

    @property
    def _engine_knobs(self) -> dict[str, str]:
        if self.method == "pool":
            engine, workers = MTCOPY, {f"{MTCOPY}/threads": self.threads}
        elif self.method in ("dma", "hybrid"):
            engine, workers = DCBM, {"module.dcbm/parameters/nr_dma_chan": self.channels}
        else:
            return {}
        knobs = {**workers, f"{engine}/offloading": 1}
        return {name: str(value) for name, value in knobs.items()}

    @property
    def by_calls(self) -> bool:
        """Whether movebench's own calls of move_pages(2) move the memory, and nothing else."""
        return self.reason is None and self.load is None and self.scene is None

    @property
    def ways(self) -> int:
        """Moves that make one repetition at least: there and back where that can be, else one."""
        return 2 if self.shape.returns and self.by_calls and self.caller is None else 1

    @property
    def callers(self) -> int:
        """Threads that call move_pages(2) at once."""
        return self.threads if self.method == "callers" else 1


@dataclass(frozen=True)
class Size:
    """How much to measure: a quick run or a full one, on `cpus` CPUs.

    node_mb is the memory, in MiB, that one node can give to the pages being moved; gigantic_pages
    is the number of hugetlb pages of 1 GB that each node has besides. model names the machine model
    of virtual time, None where the clock is another one.
    """

    quick: bool
    cpus: int
    node_mb: int
    gigantic_pages: int = 0
    model: str | None = None

    def fitting(self, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
        """Return the shapes for which a node has memory."""
        return tuple(shape for shape in shapes if shape.bytes <= self.node_mb << 20)

    def most_mb(self, quick: int, full: int) -> int:
        """Return how many MiB to move: so many, but in virtual time no more than are enough."""
        wanted, enough = (quick, VIRTUAL_QUICK_MB) if self.quick else (full, VIRTUAL_FULL_MB)
        return min(wanted, self.node_mb, enough if self.model else wanted)

    def thread_counts(self) -> tuple[int, ...]:
        """2, 4, 8, ... up to the number of CPUs, which is always among them when it is above 1.

        In virtual time all CPUs only: fewer are measured on machines that have no more.
        """
        if self.model:
            return (self.cpus,) if self.cpus > 1 else ()
        return powers_of_two(2, self.cpus)


def powers_of_two(first: int, last: int) -> tuple[int, ...]:
    """Return powers of two from `first`, which is one, to `last`, which is always among them."""
    counts = [first]
    while counts[-1] * 2 <= last:
        counts.append(counts[-1] * 2)
    if counts[-1] < last:
        counts.append(last)
    return tuple(count for count in counts if count <= last)


def compare_methods(
    shapes: Iterable[Shape], size: Size, methods: Sequence[str] = METHODS
) -> tuple[Cell, ...]:
    """For every shape: vanilla, and Pagehaul off, with batch copy, and both ways with more CPUs.

    methods are those of Pagehaul, where not all of them are wanted.
    """
    cells = []
    for shape in shapes:
        cells.append(Cell(shape, "vanilla", "serial"))
        for method in methods:
            counts = size.thread_counts() if method in ("threads", "parallel") else (1,)
            cells += [Cell(shape, "pagehaul", method, count) for count in counts]
    return tuple(cells)


def optional(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return the cells, each to be left out where its memory cannot be had."""
    return tuple(replace(cell, optional=True) for cell in cells)
