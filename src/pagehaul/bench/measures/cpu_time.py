# SPDX-License-Identifier: GPL-2.0-only
"""CPU time of the callers, and of whoever helps them, for a base page moved, in nanoseconds."""

from pagehaul.bench import captions
from pagehaul.bench.cell import BASE_PAGE
from pagehaul.bench.labels import Table, table_of
from pagehaul.bench.measure import Measure, Observed
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Quantity, in_us
from pagehaul.bench.row import Row
from pagehaul.bench.table_cells import (
    case_cells,
    copied_by_dma,
    method_cell,
    throughput,
    with_baseline,
)
from pagehaul.bench.view import View


def _collect(observed: Observed) -> float | None:
    # For a reason of the kernel's own, it is not the caller that moves memory.
    if observed.cell.reason or observed.cell.load:
        return None
    counters = observed.counters()
    # Where channels copy no CPU helps. The kernel does not count what their threads take.
    fed_ns = counters.get("sched.dcbm_ns", 0) if observed.cell.channels else 0
    helpers_ns = fed_ns or counters.get("migrate_copy.helper_ns", 0)
    times, moved = zip(*((ns, bytes_) for _, _, ns, bytes_ in observed.repetitions()), strict=True)
    return float((sum(times) + helpers_ns) / sum(each // BASE_PAGE for each in moved))


def cell(row: Row, baseline: Row | None) -> str:
    """Return the CPU time for a page, and by the baseline's."""
    ours, base = MEASURE.of(row), None if baseline is None else MEASURE.of(baseline)
    if ours is None:
        return ""
    text = f"{ours:,.0f}"
    if base:
        text += f" ({ours / base:.3f})"
    return text


def _table(part: Part) -> Table:
    rows = part.rows
    lines = []
    for row, _, ours, base in with_baseline(rows, MEASURE.of):
        if not base:
            continue
        lines.append(
            {
                **case_cells(row, rows),
                **method_cell(row),
                "speed": throughput(row, rows),
                "by DMA": copied_by_dma(row),
                "CPU, ns a page": f"{ours:,.0f}",
                "by vanilla's": f"{ours / base:.2f}",
            }
        )
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's. by DMA: how much of the content "
        "channels copied. CPU: time of the caller, and of CPUs that help it, for a base page of "
        "4 KB, without that of the channels; lower is better. "
        f"{captions.ran_on(part)}{captions.channels_caveat(part)}"
    )
    return table_of(captions.title(part), caption, lines)


# Nearly all rows have it: no experiment is told by it that does not say so.
MEASURE = Measure("cpu_ns_per_page", float, 70, _collect)

CPU_TIME = Quantity("CPU time for a page (below 1 is better)", in_us(MEASURE.of))
VIEW = View(_table, (CPU_TIME,))
