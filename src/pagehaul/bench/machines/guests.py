# SPDX-License-Identifier: GPL-2.0-only
"""Guests of several kernels, which differ in nothing else."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from pagehaul.bench.cell import Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.hardware import Hardware
from pagehaul.bench.machines.kinds import Kind
from pagehaul.bench.machines.places import Lines, OnLine, Place, Turn, parse_lines
from pagehaul.bench.machines.referee import Referee
from pagehaul.guest import kvm, models, vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.models import DEFAULT
from pagehaul.guest.task import Listener, Result, Task
from pagehaul.host import facts, tools
from pagehaul.kernel import built
from pagehaul.kernel.built import Kernel
from pagehaul.paths import cache_dir, log_dir

# MiB of a node that are not for the pages being moved: the kernel, and room to allocate in.
_NODE_RESERVE_MB = 384
_GIGANTIC_MB = 1024
_GIGANTIC_PAGES = ("hugepagesz=1G", "hugepages=0:1,1:1")

# Sizes of a guest in MiB; there are several at a time. The largest holds 2 GB and a 1 GB page on
# each of its two nodes.
_QUICK_GUEST_MB = 2048
_FULL_GUEST_MB = (8192, 6144, 4096, 3072, 2048)
_ICOUNT_GUEST_MB = 1536
# MiB that the host keeps when a guest's memory is chosen.
_HOST_RESERVE_MB = 2048

# What movebench says when it waits for its first turn.
_READY = b"movebench: ready"

# Programs that place threads of the kernel.
_OF_OWN_MACHINES = ("movebench", "workbench")

# More CPUs than this say nothing more in a guest whose CPUs are threads of the host.
_MAX_GUEST_CPUS = 16

_Lines = list[tuple[str, dict[str, Any]]]


@dataclass
class Guests:
    """Guests of several kernels.

    Without KVM they run in virtual time, as machines of the models of these names, or of `model`,
    and of so many CPUs each, or else as each experiment says. Where models are named they do so
    with KVM as well. kvm is whether KVM works, None for finding out; guests of KVM are bound to the
    nodes of the hardware. profile is a directory for a profile of each guest in virtual time.
    """

    program: Path
    images: dict[str, Kernel]
    cpus: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    model: str = DEFAULT
    kvm: bool | None = None
    profile: Path | None = None
    hardware: Hardware = field(default_factory=Hardware.here)
    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    simulated: list[dict[str, Any]] = field(default_factory=list)

    def kernels(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self.images)

    def places(self, experiment: Experiment, quick: bool) -> tuple[Place, ...]:
        """Return where an experiment is measured: all kinds of machines can be had."""
        kind = experiment.machine
        if kind.counting:
            return (Place(kind, 1, "instructions"),)
        if not (experiment.models or self.models) and self.has_kvm():
            return tuple(Place(kind, cpus) for cpus in self.cpus or (self._kvm_cpus(kind),))
        if experiment.about_caches:
            return ()
        counts = self.cpus or experiment.machine_sizes(quick)
        names = experiment.models or self.models or (self.model,)
        return tuple(Place(kind, cpus, "virtual", name) for name in names for cpus in counts)

    def _kvm_cpus(self, kind: Kind) -> int:
        """Return how many CPUs a guest of KVM has: those of host nodes, if it is bound to some."""
        shape = kind.shape(Guest(cpus=kind.least_cpus), kind.least_cpus)
        bound = self.hardware.cpus(shape, _MAX_GUEST_CPUS)
        return bound if bound >= kind.least_cpus else _host_cpus(kind)

    def has_kvm(self) -> bool:
        """Whether guests boot on KVM here."""
        if self.kvm is None:
            self.kvm = kvm.kvm_works(next(iter(self.images.values())).image)
        return self.kvm

    def disposable(self) -> bool:
        """Return True: a guest may be starved or disturbed."""
        return True

    def nodes(self) -> tuple[int, int]:
        """Both nodes."""
        return 0, 1

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        """As many as this host has CPUs and memory for."""
        spare = facts.memory_available_mb() - _HOST_RESERVE_MB
        largest = max((self.guest(place, quick).memory_mb for place in places), default=1)
        return max(1, min(facts.cpus(), spare // largest))

    def guest(self, place: Place, quick: bool) -> Guest:
        """Return the machine that a place is."""
        if place.kind.counting:
            return Guest(cpus=1, nodes=2, memory_mb=_ICOUNT_GUEST_MB, icount=True)
        memory = _QUICK_GUEST_MB if quick else self._full_memory_mb()
        guest = Guest(cpus=place.cpus, nodes=2, memory_mb=place.kind.memory_mb or memory)
        if place.kind.gigantic and memory >= _FULL_GUEST_MB[1]:
            guest = replace(guest, append=_GIGANTIC_PAGES)
        if place.model is not None:
            guest = replace(guest, model=models.load(place.model))
        guest = place.kind.shape(guest, place.cpus)
        of_kvm = place.clock == "host" and self.kvm
        return self.hardware.bind(guest, self._copies()) if of_kvm else guest

    def _copies(self) -> int:
        """Return how many guests of a full run there are at a time: two, or all kernels."""
        return max(2, len(self.images))

    def _full_memory_mb(self) -> int:
        """Return MiB of a guest of a full run."""
        spare = facts.memory_available_mb() - _HOST_RESERVE_MB
        if self.kvm and (room := self.hardware.room_mb()) is not None:
            spare = room
        spare //= self._copies()
        return next((mb for mb in _FULL_GUEST_MB if mb <= spare), _FULL_GUEST_MB[-1])

    def size(self, place: Place, quick: bool) -> Size:
        """Return what the guest's nodes hold."""
        guest = self.guest(place, quick)
        gigantic = int(set(_GIGANTIC_PAGES) <= set(guest.append))
        node_mb = min(guest.node_memory_mb()) - _NODE_RESERVE_MB - gigantic * _GIGANTIC_MB
        return Size(quick, place.cpus, node_mb, gigantic, place.model)

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> _Lines:
        """Boot the kernels of the turns, and have them measure.

        They are up at once and take turns, unless nothing that goes on beside them reaches their
        figures. One that waits sleeps but for a look at a file, 4 times a second.
        """
        boot = _Boot(self, place, quick, turns, timeout, on_line, stop)
        return boot.alone() if place.independent else boot.together()

    def describe(self, kernel: str, place: Place, guest: Guest, result: Result) -> None:
        """Note what a guest was."""
        known = self.described.setdefault(
            place.kind.name,
            {
                "accelerator": result.accel,
                "clock": place.clock,
                "cpus": [],
                "models": [],
                "nodes": guest.nodes + guest.memory_only_nodes,
                "memory_mb": guest.memory_mb,
            },
        )
        for key, value in (("cpus", place.cpus), ("models", place.model)):
            if value is not None and value not in known[key]:
                known[key] = sorted([*known[key], value])
        if result.accel == "kvm" and place.cpus == known["cpus"][-1]:
            known |= self.hardware.describe(guest, self._copies())
        if result.simulation is not None:
            counts = {name: n for name, n in result.simulation.items() if isinstance(n, int)}
            what = {
                "kernel": kernel,
                "kind": place.kind.name,
                "cpus": place.cpus,
                "model": place.model,
            }
            seconds = {"seconds": round(result.seconds, 1)}
            self.simulated.append({**what, **seconds, **counts})

    def environment(self) -> dict[str, Any]:
        """Return the guests, their kernels and the host below them."""
        return {
            "machines": self.described,
            "simulation": list(self.simulated),
            "slices": {
                name: sum(counts.get(name, 0) for counts in self.simulated)
                for name in ("slices", "forced")
            },
            "kernels": {name: kernel.release for name, kernel in self.images.items()},
            "host": self.hardware.host(),
        }


@dataclass
class _Boot:
    """Guests that measure the same turns."""

    guests: Guests
    place: Place
    quick: bool
    turns: Sequence[Turn]
    timeout: float
    on_line: OnLine
    stop: Event

    def _kernels(self) -> list[str]:
        return list(dict.fromkeys(turn.kernel for turn in self.turns))

    def alone(self) -> _Lines:
        """Boot the kernels one after the other: who wants them at once asks for each."""
        guest = self.guests.guest(self.place, self.quick)
        results = {
            kernel: self._run(kernel, guest, self._listener(kernel)) for kernel in self._kernels()
        }
        return self._lines(guest, results)

    def _listener(
        self, kernel: str, after: Callable[[], None] = lambda: None
    ) -> Callable[[str, bytes], None]:
        """Return what hears a guest, and tells of each line; after() is called after each."""
        lines = Lines()

        def listen(stream: str, data: bytes) -> None:
            for line in lines.add(data) if stream == "stdout" else []:
                self.on_line(kernel, line)
                after()

        return listen

    def _give_up(self, referee: Referee) -> None:
        """End all guests: those that wait for a turn, and the one whose turn it is."""
        referee.abandon()
        self.stop.set()

    def together(self) -> _Lines:
        """Boot all kernels at once, and let them take turns."""
        kernels = self._kernels()
        guest = self.guests.guest(self.place, self.quick)
        # They must not differ.
        guest = replace(guest, accel="kvm" if self.guests.has_kvm() else "tcg")
        with TemporaryDirectory(prefix="turns-", dir=cache_dir()) as name:
            referee = Referee(Path(name), self.turns)

            def boot(kernel: str) -> Result:
                hear = self._listener(kernel, referee.done)

                def listen(stream: str, data: bytes) -> None:
                    if stream == "stderr" and _READY in data:
                        referee.ready(kernel)
                    hear(stream, data)

                try:
                    return self._run(kernel, guest, listen, referee.directory(kernel))
                except BaseException:
                    self._give_up(referee)
                    raise

            with ThreadPoolExecutor(len(kernels)) as pool:
                futures = {kernel: pool.submit(boot, kernel) for kernel in kernels}
                try:
                    results = {kernel: future.result() for kernel, future in futures.items()}
                except BaseException:
                    self._give_up(referee)
                    raise
        return self._lines(guest, results)

    def _run(
        self,
        kernel: str,
        guest: Guest,
        listen: Callable[[str, bytes], None],
        waits_in: Path | None = None,
    ) -> Result:
        name = _name(kernel, self.place)
        if self.guests.profile is not None and guest.model is not None:
            guest = replace(guest, profile=self.guests.profile / f"{name}.txt")
        now = time.strftime("%Y%m%d-%H%M%S")
        mine = [turn.line for turn in self.turns if turn.kernel == kernel]
        return vm.run(
            self.guests.images[kernel],
            guest,
            Task(
                self._command(kernel, guest, waits_in),
                self.timeout,
                stdin="".join(f"{line}\n" for line in mine),
                watched=[] if waits_in is None else [waits_in],
                files=self._files(kernel, mine) if guest.clock != "host" else None,
            ),
            # Several guests may be booted in the same second.
            log=log_dir() / f"bench-{name}-{now}-{os.getpid()}.log",
            listener=Listener(listen, stop=self.stop),
        )

    def _files(self, kernel: str, lines: Sequence[str]) -> list[Path] | None:
        """Return all that a guest sees of the host, None for everything: it then may not repeat.

        A compiler and a kernel's tree are too much for a guest's memory.
        """
        if any("--kind=compile" in line for line in lines):
            return None
        program = self.guests.program
        files = [program, *(program.with_name(name) for name in ("faultbench", "workbench"))]
        commands = map(tools.find_command, ("stress-ng", *self.place.kind.commands))
        files += [Path(command) for command in commands if command is not None]
        files += self.place.kind.files()
        return [*files, *built.modules(self.guests.images[kernel])]

    def _command(self, kernel: str, guest: Guest, waits_in: Path | None) -> list[str]:
        program = self.guests.program
        name = self.place.kind.program
        command = [str(program.with_name(name)), "--plan=-"]
        if guest.model is not None and name in _OF_OWN_MACHINES:
            command.append("--own-machine")
        if waits_in is not None:
            command.append(f"--turns={waits_in}")
        wrap = self.place.kind.wrap
        if wrap is not None and kernel != "vanilla":
            return wrap(self.guests.images[kernel], guest, self.place.cpus, command)
        return command

    def _lines(self, guest: Guest, results: dict[str, Result]) -> _Lines:
        lines: _Lines = []
        for kernel, found in results.items():
            self.guests.describe(kernel, self.place, guest, found)
            parsed = parse_lines(found.stdout, found.returncode, found.stderr, str(found.log))
            lines += [(kernel, line) for line in parsed]
        return lines


def _host_cpus(kind: Kind) -> int:
    """Return how many CPUs a guest has whose CPUs are threads of the host."""
    cpus = max(2, min(os.cpu_count() or 2, _MAX_GUEST_CPUS) // 2 * 2)
    return max(kind.least_cpus, cpus)


def _name(kernel: str, place: Place) -> str:
    return "-".join(filter(None, [kernel, place.kind.name, str(place.cpus), place.model]))
