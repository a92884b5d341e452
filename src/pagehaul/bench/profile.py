# SPDX-License-Identifier: GPL-2.0-only
"""Where the time of a guest in virtual time went: functions, locks and cache lines.

The simulator (sim/profile.c) writes samples with call chains and the instructions that took cache
lines from other CPUs, of the timed sections only. Chains are guessed from the stack: here goes what
cannot be, as the call before a return address must be of the function that is further in.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel.built import Kernel

# Where the kernel's addresses begin.
_KERNEL = 0xFFFF800000000000
_USER, _MODULE, _IDLE = "[user]", "[module]", "[idle]"

# Functions in which a CPU waits for another one.
_WAITS = (
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "rwsem_spin_on_owner",
    "rwsem_optimistic_spin",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "osq_lock",
    "mutex_spin_on_owner",
    "__mutex_lock",
    "smp_call_function_many_cond",
    "folio_wait_bit_common",
)
# What takes a lock for somebody: the lock is its caller's.
_LOCKING = ("_raw_", "down_", "mutex_", "__mutex", "rwsem_", "queued_", "on_each_cpu", "smp_call")


@dataclass(frozen=True)
class Sample:
    """A CPU was so long in a function, called by those that follow; no function: it slept."""

    cpu: int
    ps: int
    chain: tuple[str, ...]


@dataclass
class Profile:
    """Samples of the timed sections, and transfers of cache lines by the instruction.

    lines has for each instruction, as "function+0x12", how many lines it took from other CPUs, and
    the picoseconds that this took.
    """

    samples: list[Sample] = field(default_factory=list)
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)

    def total_ps(self) -> int:
        """Return the time of all CPUs together."""
        return sum(sample.ps for sample in self.samples)

    def by_function(self) -> dict[str, Counter[int]]:
        """Return the time in each function itself, by CPU."""
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for sample in self.samples:
            found[sample.chain[0]][sample.cpu] += sample.ps
        return dict(found)

    def waits(self) -> Counter[tuple[str, str]]:
        """Return the time that CPUs waited, by how, and by the function that wanted the lock."""
        found: Counter[tuple[str, str]] = Counter()
        for sample in self.samples:
            if sample.chain[0] in _WAITS:
                wants = (name for name in sample.chain[1:] if not _takes_lock(name))
                found[sample.chain[0], next(wants, "?")] += sample.ps
        return found

    def folded(self) -> Counter[tuple[str, ...]]:
        """Return the time of each chain of calls, the outermost function first."""
        found: Counter[tuple[str, ...]] = Counter()
        for sample in self.samples:
            found[tuple(reversed(sample.chain))] += sample.ps
        return found


def _takes_lock(name: str) -> bool:
    return name in _WAITS or name.startswith(_LOCKING)


class Symbols:
    """The functions of a kernel."""

    def __init__(self, text: str) -> None:
        found: dict[int, str] = {}
        for line in text.splitlines():
            address, kind, name = line.split(maxsplit=2)
            if kind in "tTwW":
                found.setdefault(int(address, 16), name)
        self._addresses = sorted(found)
        self._names = [found[address] for address in self._addresses]

    def place(self, address: int) -> tuple[str, int]:
        """Return the function at an address, and how far into it that is."""
        if address == 0:
            return _IDLE, 0
        if address < _KERNEL:
            return _USER, 0
        at = bisect_right(self._addresses, address) - 1
        if at < 0 or at == len(self._addresses) - 1:
            return _MODULE, 0
        return self._names[at], address - self._addresses[at]

    def name(self, address: int) -> str:
        """Return the function at an address."""
        return self.place(address)[0]


def read(path: Path, symbols: Symbols) -> Profile:
    """Return what the simulator wrote; PagehaulError for something else."""
    profile = Profile()
    calls: dict[int, int] = {}
    raw: list[tuple[int, int, list[int]]] = []
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            kind, *words = line.split()
            if kind == "S":
                raw.append((int(words[0]), int(words[1]), [int(word, 16) for word in words[2:]]))
            elif kind == "L":
                name, offset = symbols.place(int(words[0], 16))
                where = f"{name}+{offset:#x}" if offset else name
                count, ps = profile.lines.get(where, (0, 0))
                profile.lines[where] = count + int(words[1]), ps + int(words[2])
            elif kind == "C":
                calls[int(words[0], 16)] = int(words[1], 16)
            else:
                raise ValueError(kind)
    except (OSError, ValueError, IndexError) as error:
        raise PagehaulError(f"{path} is no profile of the simulator: {error}") from error
    for cpu, ps, chain in raw:
        profile.samples.append(Sample(cpu, ps, tuple(_chain(chain, calls, symbols))))
    return profile


def _chain(addresses: Sequence[int], calls: Mapping[int, int], symbols: Symbols) -> Iterator[str]:
    """Return the functions of a chain, without return addresses that calls of others have left."""
    inner = symbols.name(addresses[0])
    yield inner
    for address in addresses[1:]:
        target = calls.get(address)
        if target is not None and symbols.name(target) != inner:
            continue
        # The address after a call may be that of the next function, if the call does not return.
        inner = symbols.name(address - 1)
        yield inner


def of_kernel(path: Path, kernel: Kernel) -> Profile:
    """Return the profile of a guest that ran `kernel`."""
    table = kernel.tree / "System.map"
    try:
        text = table.read_text(encoding="ascii")
    except OSError as error:
        raise PagehaulError(f"no profile without {table}, which names the functions") from error
    return read(path, Symbols(text))
