# SPDX-License-Identifier: GPL-2.0-only
"""What a benchmark measured, as data: rows, and what each of them is compared with.

docs/method.md describes every field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pagehaul.kernel import series

# Kernels that have the parts of the series up to the one that they are named after.
PARTS = series.UP_TO
KERNELS = ("vanilla", "pagehaul", "pcp-compound", "judge", *PARTS)
METHODS = ("serial", "callers", "batch", "threads", "parallel", "pool", "dma", "hybrid", "faults")

# The setting of a row of another mode of NUMA balancing: what others are compared with has none.
MODE = "numa_balancing"

# What the clock of the measurement counts: virtual time of a machine model, the host's time, or
# instructions, one a nanosecond.
CLOCKS = ("virtual", "host", "instructions")

# Counts of instructions that are further than this from their median are told of.
DETERMINISM = 0.005

# In virtual time, repetitions that are further apart than this part of their median are marked.
REPEATABLE = 0.02


@dataclass(frozen=True)
class Row:
    """One cell of an experiment on one kernel.

    gbps are 10^9 bytes a second, one figure for each repetition, which is a timed move, or two of
    them, there and back. vs_vanilla is median_gbps by that of the baseline row of the same
    experiment, condition and shape: vanilla's serial one or, where no vanilla kernel ran,
    Pagehaul's with the feature off. It is None where there is no baseline, as are vs_vanilla_min
    and vs_vanilla_max, the slowest and the fastest repetition by the baseline's median. counters
    are changes of kernel counters during all timed moves. settings are knobs in
    /sys/kernel/mm/migrate_copy besides those of the method. condition is what else the baseline
    must have in common with the row, "" for nothing. channels are the DMA channels of the method, 0
    for none. cpus are those of the machine it ran on, 0 if that is not known. model names the
    machine model of virtual time, None for any other clock. A "move" of the method "faults" is a
    repetition, which faults in, or compiles, and moves nothing.
    seen has what else was measured, by the names of the measures: ask those, see measure.py.
    """

    experiment: str
    kernel: str
    method: str
    threads: int
    folio_kb: int
    folios: int
    bytes: int
    gbps: tuple[float, ...]
    median_gbps: float
    vs_vanilla: float | None
    vs_vanilla_min: float | None
    vs_vanilla_max: float | None
    counters: Mapping[str, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""
    channels: int = 0
    cpus: int = 0
    model: str | None = None
    clock: str = "host"
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def machine(self) -> tuple[str, str | None, int]:
        """What ran it: only rows of one machine are compared with each other."""
        return self.clock, self.model, self.cpus

    @property
    def repeats(self) -> bool:
        """Whether all repetitions came to the same figure, as they should in virtual time."""
        apart = max(self.gbps) - min(self.gbps)
        return self.clock != "virtual" or apart <= REPEATABLE * self.median_gbps

    @property
    def shape(self) -> tuple[int, int]:
        """What was moved: the size of a folio in KiB, and how many of them."""
        return self.folio_kb, self.folios

    @property
    def case(self) -> tuple[str, int, int]:
        """What methods are compared for: the condition, and what was moved."""
        return self.condition, self.folio_kb, self.folios

    def within(self, fraction: float) -> int:
        """Return how many moves are no further from the median than this fraction of it."""
        return sum(abs(g - self.median_gbps) <= fraction * self.median_gbps for g in self.gbps)


@dataclass(frozen=True)
class Integrity:
    """bytes_verified were compared with what had been written; mismatches are 64-bit words."""

    bytes_verified: int
    mismatches: int
    not_moved: int


@dataclass(frozen=True)
class Statement:
    """One sentence of the verdict; one that is not good is printed in red."""

    text: str
    good: bool


@dataclass(frozen=True)
class Results:
    """A whole run of the benchmark."""

    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    integrity: Integrity
    verdict: tuple[Statement, ...] = ()

    def experiments(self) -> list[str]:
        """Names of the experiments that have rows, in their order."""
        return list(dict.fromkeys(row.experiment for row in self.rows))

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended before all was measured."""
        return bool(self.environment.get("interrupted"))

    def of(self, experiment: str) -> list[Row]:
        """Rows of one experiment."""
        return [row for row in self.rows if row.experiment == experiment]


def is_baseline(row: Row, rows: Sequence[Row]) -> bool:
    """Whether the other rows of `row`'s experiment, case and machine are compared with it."""
    if MODE in row.settings:
        return False
    if row.method != "serial" and (row.method, row.threads) != ("callers", 1):
        return False
    return row.kernel == "vanilla" or all(other.kernel != "vanilla" for other in rows)


def find_baseline(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row that `row` is compared with, or None: one caller, on the same machine."""
    for other in rows:
        # In this order: most of the rows of a whole run are of other experiments and shapes.
        same = other.experiment == row.experiment and other.folios == row.folios
        alike = same and (other.case, other.machine) == (row.case, row.machine)
        if alike and is_baseline(other, rows):
            return other
    return None


def compare(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with their ratios to the baseline filled in."""
    compared = []
    for row in rows:
        baseline = find_baseline(row, rows)
        if baseline is not None:
            row = replace(
                row,
                vs_vanilla=row.median_gbps / baseline.median_gbps,
                vs_vanilla_min=min(row.gbps) / baseline.median_gbps,
                vs_vanilla_max=max(row.gbps) / baseline.median_gbps,
            )
        compared.append(row)
    return tuple(compared)
