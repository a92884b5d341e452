# SPDX-License-Identifier: GPL-2.0-only
"""The suites whose tests are programs in a guest, and print TAP."""

import os
import re
import shlex
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pagehaul.guest import cprogs, kvm
from pagehaul.guest.machine import Guest
from pagehaul.host import facts, tools
from pagehaul.kernel import build
from pagehaul.kernel.bases import Base
from pagehaul.kernel.build import Kernel
from pagehaul.paths import REPO, log_dir
from pagehaul.suites import listening, races, tap
from pagehaul.suites.listening import Job
from pagehaul.suites.outcomes import Outcome, Status, failed, passed, prefixed, skipped

# A kernel, and the arguments with which a test program runs on it in one guest, one after another.
_Run = tuple[str, Sequence[str]]

# The modes of the copy: those of ours take so long that each half of them gets a guest.
_OUR_MODES = ("off", "batch", "threads", "parallel")
_ALL_MODES: tuple[_Run, ...] = (
    ("pagehaul", ["threads parallel"]),
    ("pagehaul", ["off batch"]),
    ("vanilla", ["plain"]),
)

# Two nodes of two CPUs each, a socket a node: enough that three can help the fourth.
_CPUS = 4
_TOPOLOGY = "sockets=2,cores=2,threads=1"
_MEMORY_MB = 3072

# Movable memory is what can be taken offline.
GUEST = Guest(
    cpus=_CPUS, nodes=2, memory_mb=_MEMORY_MB, topology=_TOPOLOGY, append=("movablecore=1G",)
)

# One 1 GB page on each node, where the host has room for that and for itself (MiB). The first node
# has a hole below 4 GB: with less it has no aligned GB that the kernel leaves free.
_GIGANTIC_KIND = "hugetlb_1g"
_GIGANTIC_MEMORY_MB = 7168
_HOST_RESERVE_MB = 2048
_GIGANTIC_GUEST = replace(
    GUEST, memory_mb=_GIGANTIC_MEMORY_MB, append=("hugepagesz=1G", "hugepages=0:1,1:1")
)

# A page of 1 GB on the second node for the contiguous memory allocator, lent to others until then.
# The kernel itself must not be there.
_CONTIG_GUEST = replace(GUEST, memory_mb=4096, append=("hugetlb_cma=1:1G", "nokaslr"))

# All that can go offline is in modules, one for each window in which a migration sleeps.
_EJECT_GUEST = replace(GUEST, modules=6, append=("memhp_default_state=online_movable",))

# Machines at the edge, and the modes that they can be in. A small node is soon full.
_EDGE = Guest(cpus=2, nodes=2, memory_mb=1024)
_BOUNDARIES = {
    "two nodes": (_EDGE, _ALL_MODES),
    "one node": (replace(_EDGE, nodes=1), _ALL_MODES),
    # Nobody can help there.
    "one CPU": (replace(_EDGE, cpus=1, nodes=1, memory_only_nodes=1), _ALL_MODES[1:]),
}

# Seconds that a guest may take, boot included.
_TIMEOUT_S = 1800.0

# A kernel that looks for its own mistakes takes so many times as long, and needs so many times the
# memory.
_DEBUG_TIME = 4
_DEBUG_MEMORY = 1.5

_KUNIT_GLOB = "migrate_copy*"

# How much moves with each fault of an engine (MiB), and how often one is loaded and unloaded.
_ENGINE_MB = 64
_ENGINE_CYCLES = 20

# The kernel's own tests that concern migration, and how they are run. These use all CPUs but one
# for a certain time: `migration` moves a page to and fro for 20 seconds in each of its tests while
# others read it, and skips them on fewer than 3 CPUs. No more of them than the host can run at
# once: a CPU that is away while it handles a fault keeps the page in use, and hundreds of moves in
# a row fail, on any kernel.
_MM_TIMED = {name: f"./{name}" for name in ("migration", "compaction_test")}
_MM_TIMED_GUEST = replace(GUEST, cpus=min(_CPUS, max(3, (os.cpu_count() or 1) + 1)), topology=None)
# These are on one CPU, so that both kernels can have theirs at once. To split the page cache, one
# of them needs a file system with large folios.
_MAKE_XFS = (
    "truncate -s 512M /run/xfs.img && mkfs.xfs -q /run/xfs.img && mkdir -p /run/xfs && "
    "mount -o loop /run/xfs.img /run/xfs"
)
_MM_SINGLE = {
    "ksm_functional_tests": "./ksm_functional_tests",
    "split_huge_page_test": f"{_MAKE_XFS} && ./split_huge_page_test /run/xfs",
    "mlock2-tests": "./mlock2-tests",
    "hugetlb-soft-offline": "./hugetlb-soft-offline",
}

# How often they are run again where the kernels differ: with the first run, an odd number.
_MORE_RUNS = 2

_T = TypeVar("_T")

_MARK = "@pagehaul"
_END = re.compile(rf"{_MARK} end (\d+)")


@dataclass(frozen=True)
class Program:
    """Something to run in a guest: a label, a shell command that prints TAP."""

    label: str
    command: str


def run_programs(
    suite: str,
    kernel: Kernel,
    guest: Guest,
    programs: Sequence[Program],
    stop: threading.Event | None = None,
) -> dict[str, list[Outcome]]:
    """Run `programs` one after the other in one guest, and return what each reported.

    A program that did not come to its end, with its guest or alone, has a failed test that says
    so; as when another thread sets `stop`. The output is in a log of its own, beside that of the
    console.
    """
    log = log_dir() / f"test-{suite}-{kernel.label}.log"
    script = "".join(
        f"echo '{_MARK} begin'; ({program.command}) 2>&1; status=$?\n"
        # The last line of a program may be without its end.
        f"echo; echo '{_MARK} end '$status\n"
        for program in programs
    )
    received, error = _run_script(suite, kernel, guest, script, log, stop)
    parts = received.decode(errors="replace").split(f"{_MARK} begin\n")[1:]
    outcomes = {}
    for number, program in enumerate(programs):
        part = parts[number] if number < len(parts) else ""
        outcomes[program.label] = _outcomes(part, error)
    if elsewhere := races.told(kernel, listening.console_of(log)):
        outcomes["data races"] = [_told(elsewhere)]
    if error and all(_END.search(part) for part in parts) and len(parts) == len(programs):
        # Nothing is to be seen of it in what the programs said.
        outcomes.setdefault("guest", []).append(failed("kernel log", error))
    return outcomes


def _run_script(
    suite: str,
    kernel: Kernel,
    guest: Guest,
    script: str,
    log: Path,
    stop: threading.Event | None,
) -> tuple[bytes, str]:
    """Run a shell script in a guest; return its stdout, and what ended the guest, or ""."""
    timeout = _TIMEOUT_S
    if kernel.variant in build.DEBUG_VARIANTS:
        timeout *= _DEBUG_TIME
    guest = replace(guest, memory_mb=_memory_mb(guest, kernel.variant))
    command = ["sh", "-c", script]
    title = f"{suite} on {kernel.label}"
    return listening.run(kernel, guest, Job(title, log, command, timeout, _progress, stop))


def _progress(stream: str, received: bytes) -> str:
    """Return how many tests have ended."""
    if stream != "stdout":
        return ""
    return f"{len(re.findall(rb'^ *(?:not )?ok ', received, re.M))} tests"


def _told(found: Counter[str]) -> Outcome:
    """Tell of data races in code that is not ours; those in ours have ended the guest."""
    lines = "".join(f"\n{count} x {what}" for what, count in found.most_common())
    return skipped("in code that is not ours", f"{found.total()} reports of KCSAN:{lines}")


def _memory_mb(guest: Guest, variant: str) -> int:
    """MiB that a guest gets for a variant of the kernel, but for what is in modules."""
    return int(guest.memory_mb * (_DEBUG_MEMORY if variant in build.DEBUG_VARIANTS else 1))


def _outcomes(output: str, error: str) -> list[Outcome]:
    """Return the tests of one program; `error` is what ended its guest, if anything did."""
    end = _END.search(output)
    if end is None:
        found = tap.parse(output) if output else []
        return [*found, failed("the program", error or "it did not come to its end")]
    outcomes = tap.parse(output[: end.start()])
    status = int(end[1])
    if status not in (0, 4) and not any(each.status is Status.FAILED for each in outcomes):
        outcomes.append(failed("exit status", f"{status}, though no test failed"))
    return outcomes


def flat(outcomes: dict[str, list[Outcome]], kernel: Kernel) -> list[Outcome]:
    """Return the tests of all programs in one list, each with the names of kernel and program."""
    return [
        outcome
        for label, found in outcomes.items()
        for outcome in prefixed(f"{kernel.label}: {label}: ", found)
    ]


def run_kunit(kernel: Kernel, guest: Guest, suite: str = "kunit") -> list[Outcome]:
    """Run the tests inside a kernel, which it runs while it boots; `suite` names the log."""
    options = build.read_options(kernel.config)
    guest = replace(guest, append=("kunit.enable=1", f"kunit.filter_glob={_KUNIT_GLOB}"))
    if options.get("KUNIT_DEBUGFS") == "y":
        command = f"cat /sys/kernel/debug/kunit/{_KUNIT_GLOB}/results"
    else:
        command = r"dmesg | sed 's/^\[[^]]*\] //'"
    return flat(run_programs(suite, kernel, guest, [Program("kunit", command)]), kernel)


def kunit(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Run the tests inside our kernel, the variant `ours` of it."""
    return run_kunit(build.build(ours, base), GUEST)


def _our_programs(
    suite: str,
    program: str,
    runs: Sequence[_Run],
    guest: Guest = GUEST,
    ours: str = "pagehaul",
    base: Base | None = None,
    most: int | None = None,
) -> list[Outcome]:
    """Run one of our programs in a guest for each of `runs`, several at once where there is room.

    `most` is how many there may be at once, however much room there is: 1 for tests in which a
    helper has to be there in time, and a CPU that is away for another guest is not. A variant that
    looks for mistakes of its own has the unmodified kernel not beside it.
    """
    runs = _without_vanilla(ours in build.DEBUG_VARIANTS, runs)
    kernels = {"pagehaul": build.build(ours, base)}
    kernels |= {side: build.build(side, base) for side, _ in runs if side == "vanilla"}
    directory = cprogs.selftests(kernels["pagehaul"].tree, "migrate_copy", [program])
    binary = shlex.quote(str(directory / program))
    of_kernel = Counter(side for side, _ in runs)
    works = []
    for number, (side, words) in enumerate(runs, 1):
        name = suite if of_kernel[side] == 1 else f"{suite}-{number}"
        programs = [
            Program(program if len(words) == 1 else f"{program} {word}", f"{binary} {word}")
            for word in words
        ]
        works.append(partial(_flat_programs, name, kernels[side], guest, programs))
    return _all_at_once(works, guest, kernels["pagehaul"], most)


def _without_vanilla(alone: bool, runs: Sequence[_Run]) -> Sequence[_Run]:
    """Return those of `runs` that are on our kernel, or all of them unless it is tested alone."""
    return [run for run in runs if run[0] != "vanilla"] if alone else runs


def _all_at_once(
    works: Sequence[Callable[[threading.Event], list[Outcome]]],
    guest: Guest,
    ours: Kernel,
    most: int | None = None,
) -> list[Outcome]:
    """Run works that have such a guest each, as many at once as this host has room for."""
    # Before several of them ask for it at the same time.
    tools.need_for("guest")
    kvm.kvm_works(ours.image)
    by_memory = (facts.memory_available_mb() - _HOST_RESERVE_MB) // _memory_mb(guest, ours.variant)
    room = max(1, min(most or os.cpu_count() or 1, by_memory))
    return [outcome for outcomes in at_once(works, room) for outcome in outcomes]


def _flat_programs(
    suite: str,
    kernel: Kernel,
    guest: Guest,
    programs: Sequence[Program],
    stop: threading.Event,
) -> list[Outcome]:
    return flat(run_programs(suite, kernel, guest, programs, stop), kernel)


def content(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check content and node of every kind of memory, moved in every way, in every mode."""
    tools.require("e2fsprogs", "xfsprogs")
    runs = [(kernel, [f"-x {_GIGANTIC_KIND} {modes}"]) for kernel, (modes,) in _ALL_MODES]
    outcomes = _our_programs("content", "migrate_content", runs, ours=ours, base=base)
    needed = _memory_mb(_GIGANTIC_GUEST, ours) + _HOST_RESERVE_MB
    if facts.memory_available_mb() < needed:
        why = f"this host has less than {needed} MiB available"
        return [*outcomes, skipped(f"{_GIGANTIC_KIND}, all ways and modes", why)]
    # Memory for 1 GB pages would leave too little of the movable memory that the others need.
    runs = [(kernel, [f"-k {_GIGANTIC_KIND} {modes}"]) for kernel, (modes,) in _ALL_MODES]
    return outcomes + _our_programs(
        "content-1g", "migrate_content", runs, _GIGANTIC_GUEST, ours, base
    )


def pinned(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check pinned pages, writers and lockless readers beside the migration."""
    tools.require("e2fsprogs", "xfsprogs")
    return _our_programs("pinned", "migrate_pinned", _ALL_MODES, ours=ours, base=base, most=1)


def windows(ours: str = "torture", base: Base | None = None) -> list[Outcome]:
    """Check what adversaries do between two steps of a migration, and with its rules broken."""
    tools.require("e2fsprogs", "xfsprogs")

    # One guest at a time: who stands in a window keeps his CPU, which others may wait for, and a
    # busy host hides what a broken rule does.
    outcomes: list[Outcome] = []
    dma = f"{shlex.join(build.module_options(build.build(ours, base)))} dma"
    for words in ("windows threads", "windows parallel", "windows batch", "breaks", dma):
        suite = f"windows-{words.split()[-1]}"
        outcomes += _our_programs(
            suite, "migrate_windows", [("pagehaul", [words])], ours=ours, base=base
        )
    for mode in ("batch", "parallel"):
        runs = [("pagehaul", [f"eject {mode}"])]
        outcomes += _our_programs(
            f"eject-{mode}", "migrate_windows", runs, _EJECT_GUEST, ours, base
        )
    return outcomes


def errors(
    ours: str = "pagehaul", base: Base | None = None, *, alone: bool = False
) -> list[Outcome]:
    """Check the errors of the calls, alike on both kernels and in every mode, and of the knobs.

    With alone, the unmodified kernel is neither built nor tested.
    """
    runs = _without_vanilla(alone, [("pagehaul", ["calls", "knobs"]), ("vanilla", ["calls"])])
    return _our_programs("errors", "migrate_errors", runs, ours=ours, base=base)


def status(
    ours: str = "pagehaul", base: Base | None = None, *, alone: bool = False
) -> list[Outcome]:
    """Check the status of every page of long lists, alike on both kernels and in every mode.

    alone is as for errors().
    """
    runs = _without_vanilla(alone, _ALL_MODES)
    return _our_programs("status", "migrate_status", runs, ours=ours, base=base)


def events(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check what is counted and traced of moves, alike on both kernels and in every mode."""
    return _our_programs("events", "migrate_events", _ALL_MODES, ours=ours, base=base)


def boundaries(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check a full node, a dying process, and machines with one node or one CPU."""
    outcomes: list[Outcome] = []
    for name, (guest, runs) in _BOUNDARIES.items():
        outcomes += prefixed(
            f"{name}: ",
            _our_programs(
                f"boundaries-{name.replace(' ', '-')}", "migrate_boundary", runs, guest, ours, base
            ),
        )
    return outcomes


def contig(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check what is moved out of the way of a page of 1 GB, in every mode."""
    return _our_programs("contig", "migrate_contig", _ALL_MODES, _CONTIG_GUEST, ours, base, most=1)


def mlock(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check how often migration drains the LRU batches, and the accounting of mlocked pages."""
    runs = [("pagehaul", _OUR_MODES), ("vanilla", ["plain"])]
    return _our_programs("mlock", "migrate_mlock", runs, ours=ours, base=base)


def charge(base: Base | None = None) -> list[Outcome]:
    """Check which cgroup pays for those who help."""
    mtcopy = shlex.quote(str(build.module(build.build("pagehaul", base), "mtcopy")))
    return _our_programs("charge", "migrate_charge", [("pagehaul", [mtcopy])], base=base)


def engines(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Check the copy engines while everything goes wrong that can."""
    kernel = build.build(ours, base)
    words = ["-b", str(_ENGINE_MB), "-c", str(_ENGINE_CYCLES)]
    words += build.module_options(kernel)
    return _our_programs(
        "engines", "migrate_engine", [("pagehaul", [shlex.join(words)])], ours=ours, base=base
    )


def mm_selftests(ours: str = "pagehaul", base: Base | None = None) -> list[Outcome]:
    """Run the kernel's own tests: the same result of each on both kernels.

    What an experiment changes is compared with the same kernel without it.
    """
    tools.require("xfsprogs")
    reference = "debug" if ours == "debug-pcp-compound" else "vanilla"
    kernels = [build.build(variant, base) for variant in (reference, ours)]
    # Both kernels get the same programs.
    names = [*_MM_TIMED, *_MM_SINGLE]
    directory = cprogs.selftests(kernels[0].tree, "mm", names)

    def run(
        group: Mapping[str, str], guest: Guest, kernel: Kernel, stop: threading.Event | None
    ) -> dict[str, Outcome]:
        # They look for their files where they are, and for free huge pages.
        prepare = f"cd {shlex.quote(str(directory))} && echo 64 > /proc/sys/vm/nr_hugepages"
        programs = [Program(name, f"{prepare} && {command}") for name, command in group.items()]
        reported = run_programs("mm-selftests", kernel, guest, programs, stop)
        return {
            name: outcome
            for label, tests in reported.items()
            # Races of others, which only one of the kernels looks for, are no result of a test.
            if label in group
            for name, outcome in named(label, tests)
        }

    def both_in_turn() -> list[dict[str, Outcome]]:
        return [run(_MM_TIMED, _MM_TIMED_GUEST, kernel, None) for kernel in kernels]

    def both_at_once() -> list[dict[str, Outcome]]:
        works = [partial(run, _MM_SINGLE, GUEST, kernel) for kernel in kernels]
        return at_once(works, len(works))

    return compare_runs(both_in_turn) + compare_runs(both_at_once)


def at_once(works: Sequence[Callable[[threading.Event], _T]], limit: int) -> list[_T]:
    """Run `works` in threads, at most `limit` at a time, and return what they return.

    Each gets the event that tells it to stop: what ends one of them stops the others.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(limit) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise


def compare_runs(run: Callable[[], Sequence[dict[str, Outcome]]]) -> list[Outcome]:
    """Compare what each test gives on both kernels; `run` runs all tests on each.

    Some of these tests race with themselves, and fail on any kernel where a CPU is away for long:
    `migration` gives up after 100 moves in a row that found their page in use. When any test
    differs, all are run twice more on both kernels, and what a test gave most often counts.
    """
    runs = [run()]
    outcomes = _compare_all(*runs[0])
    if not any(outcome.status is Status.FAILED for outcome in outcomes):
        return outcomes
    runs += [run() for _ in range(_MORE_RUNS)]
    return _compare_all(*(_most_often(found) for found in zip(*runs, strict=True)))


def _compare_all(reference: dict[str, Outcome], ours: dict[str, Outcome]) -> list[Outcome]:
    names = dict.fromkeys([*reference, *ours])
    return [compare(name, reference.get(name), ours.get(name)) for name in names]


def _most_often(runs: Sequence[dict[str, Outcome]]) -> dict[str, Outcome]:
    """Return of each test the outcome whose status most runs gave."""
    result = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        given = [run[name] for run in runs if name in run]
        ((status, _),) = Counter(outcome.status for outcome in given).most_common(1)
        result[name] = next(outcome for outcome in given if outcome.status is status)
    return result


def named(label: str, outcomes: Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    """Give each test of a program a name of its own: some programs use one several times."""
    seen: Counter[str] = Counter()
    result = []
    for outcome in outcomes:
        seen[outcome.name] += 1
        number = seen[outcome.name]
        again = f" ({number})" if number > 1 else ""
        result.append((f"{label}: {outcome.name}{again}", outcome))
    return result


def compare(name: str, reference: Outcome | None, ours: Outcome | None) -> Outcome:
    """Return whether a test gives on our kernel what it gives on the reference."""
    if reference is None or ours is None:
        where = "the reference kernel" if ours is None else "ours"
        return failed(name, f"reported on {where} only")
    if reference.status is not ours.status:
        return failed(
            name,
            f"{reference.status.value} on the reference kernel, {ours.status.value} on ours: "
            f"{ours.why}",
        )
    if ours.status is Status.PASSED:
        return passed(name)
    why = "fails on the reference kernel, too" if ours.status is Status.FAILED else ours.why
    return skipped(name, why)


def move(ours: str = "pagehaul", base: Base | None = None, *, alone: bool = False) -> list[Outcome]:
    """Try the `move` verb on both kernels, in a guest with a node that has no CPU.

    alone is as for errors().
    """
    tools.need_for("programs")
    victim = cprogs.build_static(REPO / "tests/guest") / "victim"
    # A copy, because other users of the guest cannot reach into the cache of the host's root.
    copy = "/run/victim"
    check = [
        "env",
        f"PYTHONPATH={REPO / 'src'}",
        "PYTHONDONTWRITEBYTECODE=1",
        sys.executable,
        "tests/guest/check_move.py",
        copy,
    ]
    command = f"install -m 755 {shlex.quote(str(victim))} {copy} && {shlex.join(check)}"
    guest = replace(GUEST, memory_only_nodes=1, append=())
    programs = [Program("move", command)]
    kernels = [build.build(ours, base)]
    if ours == "pagehaul" and not alone:
        kernels.append(build.build("vanilla", base))
    works = [partial(_flat_programs, "move", kernel, guest, programs) for kernel in kernels]
    return _all_at_once(works, guest, kernels[0])
