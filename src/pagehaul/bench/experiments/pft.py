# SPDX-License-Identifier: GPL-2.0-only
"""Base pages faulted in and freed, by several threads: a table of Yoo, 2025."""

from collections.abc import Sequence
from statistics import fmean, harmonic_mean

from pagehaul.bench import published
from pagehaul.bench.cell import BASE_PAGE, Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.kept_compound import KERNELS, SIZES
from pagehaul.bench.machines.kinds import FAULTING
from pagehaul.bench.measures.faults import MEASURE as FAULTS
from pagehaul.bench.row import Row
from pagehaul.bench.views.fault_figures import (
    KEPT_HEADER,
    Lines,
    kept,
    kept_caption,
    line,
    quantity,
    sizes_of,
    view,
)

THREADS = (1, 3, 5, 7, 12, 18, 24)
THREADS_PER_CPU = 2

QUICK_MB = 64
FULL_MB = 192


def _cells(size: Size) -> tuple[Cell, ...]:
    shape = Shape(4, (QUICK_MB if size.quick else FULL_MB) * 256)
    counts = [count for count in THREADS if count <= THREADS_PER_CPU * size.cpus]
    return tuple(
        Cell(shape, kernel, "faults", count, condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for count in counts
        for kernel in KERNELS
    )


def _lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of the table."""
    body = []
    for pair in kept(rows):
        sizes, threads = sizes_of(pair[0], rows), pair[0].threads
        beside = published.by_kept_compound(f"PFT, {pair[0].condition}")
        seen = [(row, found) for row in pair if (found := FAULTS.of(row))]
        elapsed = [[ns / 1e9 for ns in found.ns] for _, found in seen]
        cpu = [_rates(row, found.cpu_ns) for row, found in seen]
        wall = [_rates(row, found.ns) for row, found in seen]
        for name, figures, mean in (
            ("elapsed", elapsed, fmean),
            ("faults/cpu", cpu, harmonic_mean),
            ("faults/sec", wall, harmonic_mean),
        ):
            key = f"{name}-{threads}"
            body.append(line(sizes, key, (figures[0], figures[1]), mean, beside.get(key)))
    caption = kept_caption(
        "Base pages faulted in and freed: seconds (arithmetic mean), and pages for a second of CPU "
        "time and of time (harmonic means)."
    )
    return caption, KEPT_HEADER, tuple(body)


def _rates(row: Row, times_ns: Sequence[float]) -> list[float]:
    return [row.bytes / BASE_PAGE / (ns / 1e9) for ns in times_ns]


EXPERIMENT = Experiment(
    "pft",
    "Page faults with compound pages kept in the per-CPU lists",
    FAULTING,
    _cells,
    place=160,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    quick_cpus=(4,),
    view=view(
        _lines,
        quantity("Time (below 1 is faster)", lambda seen: seen.ns),
        quantity("CPU time (below 1 is better)", lambda seen: seen.cpu_ns),
    ),
)
