# SPDX-License-Identifier: GPL-2.0-only
"""Programs that run in a guest and print TAP, and what they reported."""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pagehaul.guest.machine import Guest
from pagehaul.kernel import build
from pagehaul.kernel.built import Kernel
from pagehaul.paths import log_dir
from pagehaul.suites import listening, races, tap
from pagehaul.suites.listening import Job
from pagehaul.suites.outcomes import Outcome, Status, failed, prefixed, skipped

# Two nodes of two CPUs each, a socket a node: enough that three can help the fourth.
CPUS = 4
_TOPOLOGY = "sockets=2,cores=2,threads=1"
_MEMORY_MB = 3072

# Movable memory is what can be taken offline.
GUEST = Guest(
    cpus=CPUS, nodes=2, memory_mb=_MEMORY_MB, topology=_TOPOLOGY, append=("movablecore=1G",)
)

# Seconds that a guest may take, boot included, unless a program needs more.
TIMEOUT_S = 1800.0

# A kernel that looks for its own mistakes takes so many times as long, and needs so many times the
# memory.
_DEBUG_TIME = 4
_DEBUG_MEMORY = 1.5

_KUNIT_GLOB = "migrate_copy*"

_MARK = "@pagehaul"
_END = re.compile(rf"{_MARK} end (\d+)")


@dataclass(frozen=True)
class Program:
    """Something to run in a guest: a label, a shell command that prints TAP.

    timeout_s is what the guest may take with it, in seconds, on a kernel that looks for no mistakes
    of its own.
    """

    label: str
    command: str
    timeout_s: float = TIMEOUT_S


def run_programs(
    suite: str,
    kernel: Kernel,
    guest: Guest,
    programs: Sequence[Program],
    stop: threading.Event | None = None,
    *,
    alone: bool = False,
) -> dict[str, list[Outcome]]:
    """Run `programs` one after the other in one guest, and return what each reported.

    The guest has no other one beside it if it is to be alone.

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
    timeout = max(program.timeout_s for program in programs)
    if kernel.variant in build.DEBUG_VARIANTS:
        timeout *= _DEBUG_TIME
    guest = replace(guest, memory_mb=memory_mb(guest, kernel.variant))
    command = ["sh", "-c", script]
    job = Job(f"{suite} on {kernel.label}", log, command, timeout, _progress, alone, stop)
    received, error = listening.run(kernel, guest, job)
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


def _progress(stream: str, received: bytes) -> str:
    """Return how many tests have ended."""
    if stream != "stdout":
        return ""
    return f"{len(re.findall(rb'^ *(?:not )?ok ', received, re.M))} tests"


def _told(found: Counter[str]) -> Outcome:
    """Tell of data races in code that is not ours; those in ours have ended the guest."""
    lines = "".join(f"\n{count} x {what}" for what, count in found.most_common())
    return skipped("in code that is not ours", f"{found.total()} reports of KCSAN:{lines}")


def memory_mb(guest: Guest, variant: str) -> int:
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
