# SPDX-License-Identifier: GPL-2.0-only
"""Figures that others published, to put beside measured ones.

All of them are in data/published.csv, as they were printed. Nothing in there was measured by
Pagehaul.
"""

import csv
import re
import statistics
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Source:
    """Who published figures, where, and on which machine."""

    label: str
    title: str
    hardware: str


SOURCES = {
    "khandual-2017": Source(
        "Khandual and Yan, 2017",
        "[PATCH 0/6] Enable parallel page migration, 17 February 2017",
        "two-socket Intel Xeon E5-2650; its GB/s are 2^30 bytes a second",
    ),
    "wang-2023": Source(
        "Wang, 2023",
        "[PATCH] mm: migrate: record the mlocked page status to remove unnecessary lru drain, "
        "October 2023",
        "not stated",
    ),
    "yan-2025": Source(
        "Yan, 2025",
        "[RFC PATCH 0/5] Accelerate page migration with batching and multi threads, January 2025",
        "two NVIDIA Grace CPUs, base pages of 64 KB",
    ),
    "yoo-2025": Source(
        "Yoo, 2025",
        'Results of "Keeping compound pages as compound pages in the PCP", 12 March 2025',
        "AMD Ryzen 5900X, 128 GiB DDR4-3200",
    ),
    "garg-2025": Source(
        "Garg, 2025",
        "[PATCH RFC V2 0/9] Enhancements to Page Migration with Multi-threading and Batch "
        "Offloading to DMA, 19 March 2025",
        "two-socket AMD EPYC (Zen 3), 32 cores, PTDMA",
    ),
}


@dataclass(frozen=True)
class Figure:
    """One published number; row and column are the labels of its table."""

    source: str
    table: str
    condition: str
    row: str
    column: str
    value: float
    plus_minus: float | None
    unit: str


@cache
def figures() -> tuple[Figure, ...]:
    """Every published figure, in the order of the file."""
    text = resources.files("pagehaul.data").joinpath("published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        Figure(
            source=entry["source"],
            table=entry["table"],
            condition=entry["condition"],
            row=entry["row"],
            column=entry["column"],
            value=float(entry["value"]),
            plus_minus=float(entry["plus_minus"]) if entry["plus_minus"] else None,
            unit=entry["unit"],
        )
        for entry in csv.DictReader(lines)
    )


def select(source: str, condition: str) -> list[Figure]:
    """Figures of one source under one condition."""
    return [f for f in figures() if f.source == source and f.condition == condition]


# Conditions of Yan, 2025: nothing else to do, and a busy machine with two kinds of helpers.
IDLE = "idle"
BUSY = {
    "normal": "busy, helpers on system_unbound_wq",
    "high": "busy, helpers on system_highpri_wq",
}


def by_folio_count(folio_kb: int, condition: str = IDLE) -> dict[tuple[int, int], float]:
    """Ratio to the published vanilla kernel by (folios, threads): Yan, 2025.

    Empty for folio sizes that were not published.
    """
    name = {64: "64KB", 2048: "2MB"}.get(folio_kb)
    cells = {
        (int(f.row.split()[0]), f.column): f.value
        for f in select("yan-2025", f"{condition}; {name} folios")
    }
    return {
        (folios, int(column.removeprefix("mt_"))): value / cells[folios, "vanilla"]
        for (folios, column), value in cells.items()
        if column != "vanilla"
    }


def by_folio_size(engine: str = "CPU threads") -> dict[tuple[int, int], float]:
    """GB/s by (folio size in KiB, threads): Garg, 2025; there is no vanilla row to divide by.

    engine is "CPU threads" or "DMA offload".
    """
    unit = {"K": 1, "M": 1024}
    found = {}
    for figure in select("garg-2025", engine):
        size = re.fullmatch(r"(\d+)([KM]) folio", figure.column)
        if size:
            threads = int(figure.row.split()[0])
            found[int(size[1]) * unit[size[2]], threads] = figure.value
    return found


def by_huge_folio_count(engine: str) -> dict[int, float]:
    """GB/s by number of folios of 2 MB: Garg, 2025.

    engine is "CPU, 1 thread" or "DMA, 1 channel".
    """
    return {
        int(figure.row.split()[0]): figure.value
        for figure in select("garg-2025", f"{engine}, 2MB folios")
    }


def by_placement() -> dict[tuple[str, int], float]:
    """GB/s by (placement, threads): Garg, 2025; the placements are "spread" and "fill"."""
    names = {"spread across CCDs": "spread", "fill one CCD first": "fill"}
    return {
        (names[figure.condition], int(figure.row.split()[0])): figure.value
        for figure in figures()
        if figure.source == "garg-2025" and figure.condition in names
    }


# Machine models, and who published figures of the machine.
MODELS = {"grace": "yan-2025", "epyc-zen3": "garg-2025"}

# What figures are by, besides the placements of by_placement().
THREADS = "CPU threads"
CHANNELS = "DMA channels"
PLACEMENTS = ("spread", "fill")


def to_one(model: str, series: str, folio_kb: int, folios: int) -> dict[int, float]:
    """Speeds of a machine that a model is of, by that of one thread or channel, by their number.

    series is THREADS, CHANNELS or a placement. Empty where nothing was published.
    """
    source = MODELS.get(model)
    if source == "yan-2025" and series == THREADS:
        cells = by_folio_count(folio_kb).items()
        found = {threads: ratio for (count, threads), ratio in cells if count == folios}
    elif source == "garg-2025" and series in PLACEMENTS:
        # Of folios of 2 MB, as the figures show: the text does not say it.
        placed = by_placement().items() if folio_kb == 2048 else ()
        found = {threads: gbps for (placement, threads), gbps in placed if placement == series}
    elif source == "garg-2025":
        engines = {THREADS: "CPU threads", CHANNELS: "DMA offload"}
        sizes = by_folio_size(engines[series]).items()
        found = {threads: gbps for (size, threads), gbps in sizes if size == folio_kb}
    else:
        found = {}
    return {count: figure / found[1] for count, figure in found.items() if 1 in found}


def by_fault_latency() -> dict[int, tuple[float, float]]:
    """Microseconds of a fault, before and after the patch, by threads: Wang, 2023."""
    found: dict[int, dict[str, float]] = {}
    for figure in figures():
        if figure.source == "wang-2023":
            threads = int(figure.row.removeprefix("fault-both-"))
            found.setdefault(threads, {})[figure.column] = figure.value
    return {threads: (each["base"], each["patched"]) for threads, each in found.items()}


def by_kept_compound(table: str) -> dict[str, tuple[float, float]]:
    """Return base and kept-compound figures by row, of one of the tables of Yoo, 2025."""
    found: dict[str, dict[str, float]] = {}
    for figure in figures():
        if figure.source == "yoo-2025" and figure.table == table:
            found.setdefault(figure.row, {})[figure.column] = figure.value
    return {row: (each["base"], each["keep-compound"]) for row, each in found.items()}


def classic() -> dict[tuple[str, str], tuple[float, float]]:
    """(GB/s, ratio to the published vanilla) by (row, condition): Khandual and Yan, 2017.

    Each figure is the median of the two published runs.
    """
    runs: dict[tuple[str, str], list[float]] = {}
    for figure in figures():
        if figure.source == "khandual-2017":
            runs.setdefault((figure.row, figure.condition), []).append(figure.value)
    medians = {key: statistics.median(values) for key, values in runs.items()}
    return {
        (row, condition): (value, value / medians[row, "Vanilla"])
        for (row, condition), value in medians.items()
    }


def throughput_tables() -> dict[tuple[str, str, str], list[Figure]]:
    """All published throughputs of migration in GB/s by (source, table, condition)."""
    found: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in figures():
        if figure.unit == "GB/s":
            found.setdefault((figure.source, figure.table, figure.condition), []).append(figure)
    return found
