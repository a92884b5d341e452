# SPDX-License-Identifier: GPL-2.0-only
"""Where the benchmark program runs: guests of both kernels, or the running kernel of this host."""

import itertools
import json
import os
import platform
import re
import shlex
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from typing import Any, Protocol

from pagehaul import build, host, ui, vm
from pagehaul.build import Kernel
from pagehaul.errors import PagehaulError
from pagehaul.experiments import Size
from pagehaul.experiments.cell import DCBM
from pagehaul.paths import cache_dir

_NODES = Path("/sys/devices/system/node")
_MIGRATE_COPY = Path("/sys/kernel/mm/migrate_copy")

# MiB of a node that are not for the pages being moved: the kernel, and room to allocate in.
_NODE_RESERVE_MB = 384
_GIGANTIC_MB = 1024
_GIGANTIC_PAGES = ("hugepagesz=1G", "hugepages=0:1,1:1")

# Sizes of a guest in MiB; there is one for each kernel at a time. The largest holds 2 GB and a 1 GB
# page on each of its two nodes.
_QUICK_GUEST_MB = 2048
_FULL_GUEST_MB = (8192, 6144, 4096, 3072, 2048)
_ICOUNT_GUEST_MB = 1536
# So little that all of a node can be filled quickly, and compilers have room.
_FAULTS_GUEST_MB = 1024
# MiB that the host keeps when a guest's memory is chosen.
_HOST_RESERVE_MB = 2048

# What movebench says when it waits for its first turn.
_READY = b"movebench: ready"

# What a guest has instead of a DMA engine: threads that copy, with so many MB/s each. They are slow
# enough that several can be told from one. They have CPUs of their own, half of the guest's, which
# are part of the device and run nothing else.
_CHANNELS = 16
CHANNEL_MB = 200

# Where faultbench runs.
_FAULTS = ("faults", "fault-icount")

# How often guests are booted for the same turns, at most, while the emulation brings them down.
_ATTEMPTS = 3

# More CPUs than this say nothing more in a guest, whose CPUs are threads of the host.
_MAX_GUEST_CPUS = 16


@dataclass(frozen=True)
class Turn:
    """One line of a plan, on one kernel."""

    kernel: str
    line: str


class Machine(Protocol):
    """Something that runs plans of the benchmark program."""

    def kernels(self) -> tuple[str, ...]:
        """Return the kernels to boot alternately, or the only one that there is."""

    def machines(self) -> tuple[str, ...]:
        """Which kinds of machine it can be: see `Experiment`."""

    def size(self, machine: str, quick: bool) -> Size:
        """How much it can measure."""

    def disposable(self) -> bool:
        """Whether memory may be taken from it, and whatever else runs on it be disturbed."""

    def nodes(self) -> tuple[int, int]:
        """Return the nodes between which pages move."""

    def run(
        self,
        machine: str,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: Callable[[], None],
    ) -> list[tuple[str, dict[str, Any]]]:
        """Take the turns, in their order, and return a kernel's name and a JSON line for each.

        on_line is called for each line as it comes; timeout, in seconds, is for all of them.
        """

    def environment(self) -> dict[str, Any]:
        """Return what a reader of the results has to know about it."""


def _device_cpus(guest: vm.Guest) -> str:
    """Return the list of the CPUs that make up the DMA engine of a guest."""
    return f"{guest.cpus // 2}-{guest.cpus - 1}"


def _with_channels(kernel: Kernel, guest: vm.Guest, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` where dcbm has channels of softdma to use."""
    softdma, dcbm = (shlex.quote(str(build.module(kernel, name))) for name in ("softdma", "dcbm"))
    params = f"channels={_CHANNELS} bandwidth_mb={CHANNEL_MB} cpus={_device_cpus(guest)}"
    load = f"insmod {softdma} {params} && insmod {dcbm}"
    return ["sh", "-c", f"{load} && exec {shlex.join(command)}"]


def memory_available_mb() -> int:
    """MiB that this host can give away."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) // 1024 if found else 0


def cpu_model() -> str:
    """Name of this host's processor."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


class Referee:
    """Tells guests whose turn it is, by files that movebench waits for (--turns)."""

    def __init__(self, directory: Path, turns: Sequence[Turn], *, in_turns: bool) -> None:
        self._directory = directory
        self._lock = Lock()
        self._left = deque(turns)
        self._begun = dict.fromkeys((turn.kernel for turn in turns), 0)
        for kernel in self._begun:
            self.directory(kernel).mkdir()
        self._booting = set(self._begun)
        self._in_turns = in_turns
        while not in_turns and self._left:
            self._begin()

    def directory(self, kernel: str) -> Path:
        """Return where the files of a kernel's turns are."""
        return self._directory / kernel

    def _begin(self) -> None:
        turn = self._left.popleft()
        self._begun[turn.kernel] += 1
        (self.directory(turn.kernel) / str(self._begun[turn.kernel])).touch()

    def ready(self, kernel: str) -> None:
        """Begin the first turn, when no guest is booting any more: `kernel` has booted."""
        with self._lock:
            self._booting.discard(kernel)
            if self._in_turns and not self._booting:
                self._begin()

    def done(self) -> None:
        """Begin the next turn: the last one has ended."""
        with self._lock:
            if self._in_turns and self._left:
                self._begin()

    def abandon(self) -> None:
        """Let all guests end, whose turns will not come: one of them is no more."""
        for kernel in self._begun:
            (self.directory(kernel) / "abandoned").touch()


@dataclass
class Guests:
    """Guests of two kernels, which differ in nothing else."""

    program: Path
    images: dict[str, Kernel]
    accelerators: dict[str, str] = field(default_factory=dict)
    described: dict[str, dict[str, Any]] = field(default_factory=dict)

    def kernels(self) -> tuple[str, ...]:
        """Both kernels."""
        return tuple(self.images)

    def machines(self) -> tuple[str, ...]:
        """All kinds."""
        return ("icount", "busy-icount", "parallel", "dies", "dma", *_FAULTS)

    def disposable(self) -> bool:
        """Guests are."""
        return True

    def nodes(self) -> tuple[int, int]:
        """Both nodes."""
        return 0, 1

    def _guest(self, machine: str, quick: bool) -> vm.Guest:
        if machine in ("icount", "busy-icount", "fault-icount"):
            return vm.Guest(cpus=1, nodes=2, memory_mb=_ICOUNT_GUEST_MB, icount=True)
        cpus = max(2, min(os.cpu_count() or 2, _MAX_GUEST_CPUS) // 2 * 2)
        memory = _QUICK_GUEST_MB
        if not quick:
            spare = (memory_available_mb() - _HOST_RESERVE_MB) // len(self.images)
            memory = next((mb for mb in _FULL_GUEST_MB if mb <= spare), _FULL_GUEST_MB[-1])
        if machine == "faults":
            topology = f"sockets=2,cores={cpus // 2},threads=1"
            return vm.Guest(cpus=cpus, nodes=2, memory_mb=_FAULTS_GUEST_MB, topology=topology)
        if machine == "dies":
            # Two caches, each with a CPU besides that of the caller, and memory far from both.
            cpus = max(4, cpus)
            dies = f"sockets=1,dies=2,cores={cpus // 2},threads=1"
            return vm.Guest(
                cpus=cpus, nodes=1, memory_only_nodes=1, memory_mb=memory, topology=dies
            )
        guest = vm.Guest(
            cpus=cpus,
            nodes=2,
            memory_mb=memory,
            # A socket a node: the kernel warns of a cache that two nodes share.
            topology=f"sockets=2,cores={cpus // 2},threads=1",
            append=_GIGANTIC_PAGES if memory >= _FULL_GUEST_MB[1] else (),
        )
        if machine == "dma":
            isolate = f"isolcpus=domain,{_device_cpus(guest)}"
            guest = replace(guest, append=(*guest.append, isolate))
        return guest

    def size(self, machine: str, quick: bool) -> Size:
        """Return what the guest's nodes hold."""
        guest = self._guest(machine, quick)
        gigantic = int(set(_GIGANTIC_PAGES) <= set(guest.append))
        node_mb = min(guest.node_memory_mb()) - _NODE_RESERVE_MB - gigantic * _GIGANTIC_MB
        return Size(quick=quick, cpus=guest.cpus, node_mb=node_mb, gigantic_pages=gigantic)

    def run(
        self,
        machine: str,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: Callable[[], None],
    ) -> list[tuple[str, dict[str, Any]]]:
        """Boot all kernels at once, and let them take turns.

        A guest that waits sleeps but for a look at a file, 4 times a second. Guests that count
        their instructions need no turns: nothing that goes on beside them reaches their counts.

        Where the emulation brings one of the guests down, all of it is measured anew.
        """
        told = 0
        for attempt in itertools.count(1):
            lines = itertools.count(1)

            def on_new_line(lines: Iterator[int] = lines) -> None:
                nonlocal told
                if next(lines) > told:
                    told += 1
                    on_line()

            try:
                return self._measure(machine, quick, turns, timeout, on_new_line)
            except vm.EmulationBroke:
                if attempt == _ATTEMPTS:
                    raise
                ui.console.print("The emulation broke a guest; both once more")
        raise AssertionError("not reached")

    def _measure(
        self,
        machine: str,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: Callable[[], None],
    ) -> list[tuple[str, dict[str, Any]]]:
        kernels = list(dict.fromkeys(turn.kernel for turn in turns))
        guest = self._guest(machine, quick)
        # Before several guests ask for it at the same time.
        host.need_for("guest")
        if not guest.icount:
            # Asked once for all: they must not differ, nor probe at the same time.
            kvm = vm.kvm_works(self.images[kernels[0]].image)
            guest = replace(guest, accel="kvm" if kvm else "tcg")
        with TemporaryDirectory(prefix="turns-", dir=cache_dir()) as name:
            referee = Referee(Path(name), turns, in_turns=not guest.icount)

            def boot(kernel: str) -> vm.Result:
                def listen(stream: str, data: bytes) -> None:
                    if stream == "stderr" and _READY in data:
                        referee.ready(kernel)
                    for _ in range(data.count(b"\n") if stream == "stdout" else 0):
                        on_line()
                        referee.done()

                try:
                    waiting = f"--turns={referee.directory(kernel)}"
                    name = "faultbench" if machine in _FAULTS else self.program.name
                    command = [str(self.program.with_name(name)), "--plan=-", waiting]
                    if machine == "dma" and kernel != "vanilla":
                        command = _with_channels(self.images[kernel], guest, command)
                    return vm.run(
                        self.images[kernel],
                        guest,
                        command,
                        timeout=timeout,
                        stdin="".join(f"{turn.line}\n" for turn in turns if turn.kernel == kernel),
                        on_output=listen,
                        watched=[referee.directory(kernel)],
                    )
                except BaseException:
                    referee.abandon()
                    raise

            with ThreadPoolExecutor(len(kernels)) as pool:
                futures = {kernel: pool.submit(boot, kernel) for kernel in kernels}
                try:
                    results = {kernel: future.result() for kernel, future in futures.items()}
                except BaseException:
                    referee.abandon()
                    raise
        lines: list[tuple[str, dict[str, Any]]] = []
        for kernel, result in results.items():
            self.described[machine] = {
                "accelerator": result.accel,
                "cpus": guest.cpus,
                "nodes": guest.nodes + guest.memory_only_nodes,
                "memory_mb": guest.memory_mb,
            }
            parsed = parse_lines(result.stdout, result.returncode, result.stderr, str(result.log))
            lines += [(kernel, line) for line in parsed]
        return lines

    def environment(self) -> dict[str, Any]:
        """Return the guests, their kernels and the host below them."""
        return {
            "machines": self.described,
            "kernels": {name: kernel.release for name, kernel in self.images.items()},
            "host": {"cpu": cpu_model(), "cpus": os.cpu_count()},
        }


@dataclass
class Host:
    """The machine we are on, and the kernel that it runs."""

    program: Path

    def __post_init__(self) -> None:
        """Raise PagehaulError where nothing can be measured."""
        if os.geteuid() != 0:
            raise PagehaulError(
                "bench --host needs root: it checks the size of every folio in /proc/kpageflags"
            )
        if len(nodes_with_memory()) < 2:
            raise PagehaulError(
                "bench --host needs two NUMA nodes with memory, and this machine has one; "
                "without --host both kernels are measured in guests"
            )

    def kernels(self) -> tuple[str, ...]:
        """Return the running kernel."""
        return ("pagehaul" if _MIGRATE_COPY.is_dir() else "vanilla",)

    def machines(self) -> tuple[str, ...]:
        """Instructions are counted in a guest only; the caches are those that there are."""
        kinds = ("parallel", "dies")
        return (*kinds, "dma") if (_MIGRATE_COPY / DCBM).is_dir() else kinds

    def disposable(self) -> bool:
        """No real machine is."""
        return False

    def nodes(self) -> tuple[int, int]:
        """Return the first two nodes that have memory."""
        first, second, *_ = nodes_with_memory()
        return first, second

    def size(self, machine: str, quick: bool) -> Size:
        """Return what is free on both nodes now."""
        del machine
        free_mb = min(_node_free_mb(node) for node in self.nodes())
        gigantic = min(_free_gigantic_pages(node) for node in self.nodes())
        return Size(
            quick=quick,
            cpus=os.cpu_count() or 1,
            node_mb=max(0, free_mb * 3 // 4 - _NODE_RESERVE_MB),
            gigantic_pages=gigantic,
        )

    def run(
        self,
        machine: str,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: Callable[[], None],
    ) -> list[tuple[str, dict[str, Any]]]:
        """Take the turns here."""
        del machine, quick
        lines = []
        process = subprocess.Popen(
            [str(self.program), "--plan=-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # SIGTERM, not SIGKILL: the program then puts back the settings it changed.
        timer = Timer(timeout, process.terminate)
        timer.start()
        try:
            process.stdin.write("".join(f"{turn.line}\n" for turn in turns))
            process.stdin.close()
            for line in process.stdout:
                lines.append(line)
                on_line()
            returncode = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                process.terminate()
                process.wait()
        kernel = self.kernels()[0]
        return [(kernel, line) for line in parse_lines("".join(lines), returncode, "", "")]

    def environment(self) -> dict[str, Any]:
        """Return the machine."""
        first, second = self.nodes()
        here = {
            "accelerator": "none",
            "cpus": os.cpu_count(),
            "nodes": len(nodes_with_memory()),
            "from": first,
            "to": second,
        }
        return {
            "machines": dict.fromkeys(self.machines(), here),
            "kernels": {self.kernels()[0]: platform.release()},
            "host": {"cpu": cpu_model(), "cpus": os.cpu_count()},
        }


def nodes_with_memory() -> list[int]:
    """NUMA nodes of this host that have memory."""
    try:
        text = (_NODES / "has_memory").read_text().strip()
    except OSError:
        return []
    nodes: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        nodes += range(int(first), int(last or first) + 1)
    return nodes


def _node_free_mb(node: int) -> int:
    found = re.search(r"MemFree:\s+(\d+) kB", (_NODES / f"node{node}" / "meminfo").read_text())
    return int(found[1]) // 1024 if found else 0


def _free_gigantic_pages(node: int) -> int:
    path = _NODES / f"node{node}" / "hugepages" / "hugepages-1048576kB" / "free_hugepages"
    return int(path.read_text()) if path.exists() else 0


def parse_lines(stdout: str, returncode: int, stderr: str, log: str) -> list[dict[str, Any]]:
    """Return the program's JSON lines; PagehaulError when it did not get to its end."""
    lines: list[dict[str, Any]] = []
    try:
        lines = [json.loads(line) for line in stdout.splitlines() if line.strip()]
    except ValueError as error:
        raise PagehaulError(f"movebench printed something that is not JSON: {error}") from error
    # 1 is what it returns for a cell that failed, and the cell's line says why.
    if returncode not in (0, 1):
        where = f"; the log is in {log}" if log else ""
        last: Sequence[str] = stderr.strip().splitlines()[-1:]
        raise PagehaulError(f"movebench failed with exit code {returncode}{where} {''.join(last)}")
    return lines
