# SPDX-License-Identifier: GPL-2.0-only
"""The processors of a guest, as QEMU's monitor sees them: their threads, and what they do.

A guest that stands still cannot tell it any more. Whether its kernel waits, or QEMU has let an
interrupt go, is to be seen from outside only.
"""

import asyncio
import bisect
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient, QMPError

from pagehaul.errors import PagehaulError

# What the kernel of Linux takes for the address of a socket, and its end.
_LONGEST_PATH = 107

# Seconds until QEMU has answered all, or will not.
_ANSWERS_S = 20.0

# Seconds between two looks at CPUs that seem to be stuck.
_LOOKS_AGAIN_S = 2.0

# Seconds until QEMU has allocated a guest's memory, and tells the threads of its CPUs.
_STARTS_S = 300.0

# Words of a stack that are looked at, and the places in the kernel's code that are shown of them.
_STACK_WORDS = 192
_STACK_SHOWN = 16

_INTERRUPTS_ON = 1 << 9


def options(work: Path) -> list[str]:
    """Return QEMU's options for its monitor, in `work`; none where the path is too long for it."""
    path = _socket(work)
    if len(str(path).encode()) > _LONGEST_PATH or "," in str(path):
        return []
    return ["-qmp", f"unix:{path},server=on,wait=off"]


def tell(work: Path, tree: Path) -> list[str]:
    """Return lines on what the CPUs of an x86 guest do; `tree` is that of its kernel."""
    if not _socket(work).exists():
        return []
    try:
        return asyncio.run(asyncio.wait_for(_tell(_socket(work), tree), _ANSWERS_S))
    except TimeoutError:
        return [f"QEMU's monitor: no answer for {_ANSWERS_S:.0f} s"]
    except (QMPError, OSError) as error:
        return [f"QEMU's monitor: {error}"]


def pin(work: Path, cpus: Sequence[int], alive: Callable[[], bool]) -> None:
    """Pin each CPU of a guest that has just started to the host's CPU in the same place of `cpus`.

    Returns early if the guest is no longer alive. Raises PagehaulError where pinning fails.
    """
    path = _socket(work)
    if len(str(path).encode()) > _LONGEST_PATH:
        raise PagehaulError(f"cannot pin the guest's CPUs: {path} is too long for a socket")
    deadline = time.monotonic() + _STARTS_S
    while not path.exists() and alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        threads = asyncio.run(asyncio.wait_for(_threads(path), deadline - time.monotonic()))
        for thread, cpu in zip(threads, cpus, strict=True):
            os.sched_setaffinity(thread, {cpu})
    except (TimeoutError, QMPError, OSError, ValueError) as error:
        if alive():
            raise PagehaulError(f"cannot pin the guest's CPUs: {error!r}") from error


async def _threads(path: Path) -> list[int]:
    """Return the host's thread of each CPU of a guest."""
    client = QMPClient("pagehaul")
    await client.connect(str(path))
    try:
        found: Any = await client.execute("query-cpus-fast")
        return [cpu["thread-id"] for cpu in sorted(found, key=lambda cpu: cpu["cpu-index"])]
    finally:
        await client.disconnect()


# A halted CPU, as Cpu.describe() tells of it, and what its APIC believes to be in service.
_IDLE_IN_SERVICE = re.compile(
    r"^CPU (\d+): halted .*, interrupts on$(?:\n^CPU \1: .*$)*?\n^CPU \1: +ISR \d", re.M
)


def lost_interrupt(told: str) -> set[str]:
    """Return the idle CPUs which, by what tell() returned, still have an interrupt in service."""
    return {found[1] for found in _IDLE_IN_SERVICE.finditer(told)}


def stuck(work: Path, tree: Path) -> str:
    """Return why an x86 guest cannot go on, as far as its CPUs show; "" if it may.

    A CPU may have woken between the two questions, so it has to look the same twice.
    """
    first = lost_interrupt("\n".join(tell(work, tree)))
    if not first:
        return ""
    time.sleep(_LOOKS_AGAIN_S)
    lost = first & lost_interrupt("\n".join(tell(work, tree)))
    return f"no interrupt reaches CPU {', '.join(sorted(lost))} any more" if lost else ""


def _socket(work: Path) -> Path:
    return work / "monitor"


async def _tell(path: Path, tree: Path) -> list[str]:
    client = QMPClient("pagehaul")
    await client.connect(str(path))
    running = False
    try:

        async def ask(command: str, cpu: int = 0) -> str:
            words = {"command-line": command, "cpu-index": cpu}
            return str(await client.execute("human-monitor-command", words))

        status = (await ask("info status")).strip()
        lines = [f"QEMU's monitor: {status}"]
        # A CPU that runs may take an interrupt between two questions, and look like one that is
        # halted in the middle of it.
        running = status.endswith("running")
        if running:
            await client.execute("stop")
        cpus = parse_cpus(await ask("info registers -a"))
        gate = parse_words(await ask(f"x /2gx {cpus[0].idt:#x}")) if cpus else []
        symbols = Symbols.read(tree / "System.map", gate)
        for cpu in cpus:
            apic = await ask("info lapic", cpu.number)
            stack = parse_words(await ask(f"x /{_STACK_WORDS}gx {cpu.stack:#x}", cpu.number))
            lines += cpu.describe(symbols, stack, apic)
        return lines
    finally:
        if running:
            await client.execute("cont")
        await client.disconnect()


@dataclass(frozen=True)
class Symbols:
    """Where the kernel's functions are in a guest, which places its kernel at random."""

    starts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    end: int = 0

    @classmethod
    def read(cls, system_map: Path, gate: list[int]) -> "Symbols":
        """Return those of a kernel whose gate for the first exception is the two words `gate`."""
        if not system_map.exists() or len(gate) < 2:
            return cls()
        rows = (line.split() for line in system_map.read_text(encoding="ascii").splitlines())
        found = [(int(row[0], 16), row[2]) for row in rows if row[1] in "tT"]
        known = dict((name, start) for start, name in found)
        low, high = gate
        entry = low & 0xFFFF | low >> 48 << 16 | (high & 0xFFFFFFFF) << 32
        shift = entry - known.get("asm_exc_divide_error", entry)
        end = known.get("_etext", 0)
        found = sorted((at, name) for at, name in found if at < end)
        return cls([at + shift for at, _ in found], [name for _, name in found], end + shift)

    def name(self, address: int) -> str:
        """Return an address as function and offset; "" where there is no function."""
        place = bisect.bisect_right(self.starts, address) - 1
        if place < 0 or address >= self.end:
            return ""
        return f"{self.names[place]}+{address - self.starts[place]:#x}"


@dataclass(frozen=True)
class Cpu:
    """The registers of a CPU that tell what it does."""

    number: int
    instruction: int
    stack: int
    flags: int
    halted: bool
    idt: int

    def describe(self, symbols: Symbols, stack: list[int], apic: str) -> Iterator[str]:
        """Yield lines on it; apic is what QEMU says of its interrupt controller."""
        does = "halted" if self.halted else "runs"
        on = "on" if self.flags & _INTERRUPTS_ON else "off"
        place = symbols.name(self.instruction) or f"{self.instruction:#x}"
        yield f"CPU {self.number}: {does} at {place}, interrupts {on}"
        for what in ("LVTT", "Timer", "ISR", "IRR"):
            for line in re.findall(rf"^{what}\b.*$", apic, re.M):
                yield f"CPU {self.number}:   {' '.join(line.split())}"
        names = [name for word in stack if (name := symbols.name(word))]
        if names:
            yield f"CPU {self.number}:   on its stack: {' '.join(names[:_STACK_SHOWN])}"


def parse_cpus(text: str) -> list[Cpu]:
    """Return the CPUs in what QEMU's "info registers -a" says of an x86 guest."""
    cpus = []
    for part in re.split(r"^CPU#", text, flags=re.M)[1:]:
        found = {
            name: int(value, 16) for name, value in re.findall(r"\b([A-Z]+)=\s*([0-9a-f]+)", part)
        }
        number = re.match(r"\d+", part)
        if number is None or not {"RIP", "RSP", "RFL", "HLT", "IDT"} <= found.keys():
            continue
        cpus.append(
            Cpu(
                number=int(number[0]),
                instruction=found["RIP"],
                stack=found["RSP"],
                flags=found["RFL"],
                halted=bool(found["HLT"]),
                idt=found["IDT"],
            )
        )
    return cpus


def parse_words(text: str) -> list[int]:
    """Return the words in what QEMU's "x /NUMBERgx ADDRESS" says."""
    lines = (line.partition(":")[2] for line in text.splitlines())
    return [int(word, 16) for line in lines for word in line.split() if word.startswith("0x")]
