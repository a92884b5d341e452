# SPDX-License-Identifier: GPL-2.0-only
"""What faultbench has seen of pages faulted in, or of compilers."""

from dataclasses import dataclass

from pagehaul.bench.measure import Measure, Observed
from pagehaul.errors import PagehaulError


@dataclass(frozen=True)
class Faults:
    """What faultbench has seen, in ns, one figure for each repetition.

    cpu_ns is the CPU time of its threads, or of the compilers, and user_ns what of the latter was
    outside of the kernel. latency_ns is the mean of the faults, 0 where it was not measured.
    """

    ns: tuple[float, ...]
    cpu_ns: tuple[float, ...]
    user_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]


def _collect(observed: Observed) -> Faults | None:
    if not observed.cell.load:
        return None
    repetitions = list(observed.repetitions())
    return Faults(
        tuple(float(ns / moves) for moves, ns, _, _ in repetitions),
        tuple(float(cpu_ns) for _, _, cpu_ns, _ in repetitions),
        tuple(map(float, observed.all_of("user_ns"))),
        tuple(map(float, observed.all_of("latency_ns"))),
    )


def _check(faults: Faults, name: str) -> None:
    times = (faults.ns, faults.cpu_ns, faults.user_ns, faults.latency_ns)
    if not faults.ns or len({len(each) for each in times}) != 1:
        raise PagehaulError(f"{name}: needs one figure of each kind for each repetition")


MEASURE = Measure("faults", Faults, 80, _collect, check=_check)
