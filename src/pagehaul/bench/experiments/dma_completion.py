# SPDX-License-Identifier: GPL-2.0-only
"""How a channel says that it is through: by an interrupt for each descriptor, or when it is asked.

The channels are as those of a PCI device: they take 64 KB at a time, and interrupt the CPU on which
the caller runs. Those that are asked interrupt at the end of a chunk alone (`poll` of dcbm).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pagehaul.bench import captions
from pagehaul.bench.cell import Cell, Size
from pagehaul.bench.dma_cells import CPUS, QUICK_CPUS, hybrid_cells
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.labels import Table, column_label, column_of, shape_label, table_of
from pagehaul.bench.machines.kinds import DMA
from pagehaul.bench.measures import cpu_time
from pagehaul.bench.part import Part
from pagehaul.bench.row import Row
from pagehaul.bench.table_cells import case_cells
from pagehaul.bench.view import View

# What is said of a case, and what `poll` is then.
HOW = {"interrupts": "none", "asked": "any"}

CALLS, PAGES = "irq.CAL", "vmstat.pgmigrate_success"

_DEVICE = {"module.softdma/parameters/seg_kb": "64", "module.softdma/parameters/irq_cpu": "0"}


def _cells(size: Size) -> tuple[Cell, ...]:
    found = []
    for how, poll in HOW.items():
        settings = {**_DEVICE, "module.dcbm/parameters/poll": poll}
        for cell in hybrid_cells(size):
            if cell.channels:
                found.append(replace(cell, condition=how, settings={**cell.settings, **settings}))
            elif cell.kernel == "vanilla":
                found.append(replace(cell, condition=how))
    return tuple(found)


def _pairs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows that differ in nothing but that, in the order of HOW."""
    for first in rows:
        if not first.channels or first.condition != next(iter(HOW)):
            continue
        same = (first.shape, first.method, first.channels, first.cpus)
        found = [row for row in rows if (row.shape, row.method, row.channels, row.cpus) == same]
        by_how = {row.condition: row for row in found}
        if by_how.keys() == HOW.keys():
            yield [by_how[how] for how in HOW]


def _table(part: Part) -> Table:
    lines = []
    for pair in _pairs(part.rows):
        first = pair[0]
        line = {
            **case_cells(first, part.rows, shape_label(*first.shape)),
            "method": column_label(column_of(first)._replace(settings=())),
        }
        for row in pair:
            ns = cpu_time.MEASURE.of(row)
            line[f"{row.condition}, GB/s"] = f"{row.median_gbps:.2f}"
            line[f"{row.condition}, CPU, ns a page"] = "" if ns is None else f"{ns:,.0f}"
            # The device interrupts by function calls, of which this counts everybody's.
            calls, pages = (row.counters.get(name, 0) for name in (CALLS, PAGES))
            line[f"{row.condition}, a MB"] = f"{256 * calls / pages:,.1f}" if pages else ""
        lines.append(line)
    caption = f"a MB: interrupts for one. {captions.ran_on(part)}{captions.channels_caveat(part)}"
    return table_of(captions.title(part), caption, lines)


EXPERIMENT = Experiment(
    "dma-completion",
    "Channels that interrupt, and channels that are asked",
    DMA,
    _cells,
    place=215,
    guest_only=True,
    on_request=True,
    cpus=CPUS,
    quick_cpus=QUICK_CPUS,
    view=View(_table, (cpu_time.CPU_TIME,)),
)
