# SPDX-License-Identifier: GPL-2.0-only
"""The tables of what faultbench measures, with published figures beside the measured ones.

As in the published tables, a change in percent stands between asterisks where it is more than
chance: by Welch's test, at 95%.
"""

from collections.abc import Callable, Sequence
from itertools import product
from statistics import fmean, harmonic_mean

from pagehaul.bench import kept_compound, published
from pagehaul.bench.cell import BASE_PAGE
from pagehaul.bench.experiments import compaction_latency
from pagehaul.bench.labels import cpus_label
from pagehaul.bench.means import differ, interval
from pagehaul.bench.results import Row

Lines = tuple[tuple[str, ...], ...]

_MARKS = "*x%*: a change that is more than chance, by Welch's test at 95%."


def change(base: float, other: float) -> float:
    """Return by how many percent `other` is above `base`."""
    return (other / base - 1) * 100


def marked(base: Sequence[float], other: Sequence[float]) -> str:
    """Return the change of the mean, between asterisks where it is more than chance."""
    text = f"{change(fmean(base), fmean(other)):+.2f}%"
    return f"*{text}*" if differ(base, other) else text


def latency_lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of compaction-latency."""
    figures = published.by_fault_latency()
    body = []
    machines = sorted({row.cpus for row in rows})
    several = len(machines) > 1
    for condition, cpus in product(dict.fromkeys(row.condition for row in rows), machines):
        mine = [row for row in rows if (row.condition, row.cpus) == (condition, cpus)]
        counts = {row.threads for row in mine}
        # What is not measured, but published, stands there once.
        for threads in sorted(counts | (set(figures) if cpus == machines[-1] else set())):
            found = {row.settings.get("lru_drain"): row for row in mine if row.threads == threads}
            names = (condition, *([f"{cpus}"] if several else []), f"fault-both-{threads}")
            body.append((*names, *_latency_cells(found, threads)))
    header = (
        "condition",
        *(["CPUs"] if several else []),
        "threads",
        "drain for mapped, us",
        "for mlocked, us",
        "once a batch or never, us",
        "huge",
        "published, for mapped, us",
        "for mlocked, us",
    )
    origin = published.SOURCES["wang-2023"]
    caption = (
        "Mean latency of the faults, and half of its 95% confidence interval; the change against "
        "a drain for every mapped folio; lower is better. huge: faults that got a huge page. "
        f"{_MARKS} Published: {origin.label}, {origin.title}; {origin.hardware}."
    )
    return caption, header, tuple(body)


def _latency_cells(found: dict[str | None, Row], threads: int) -> list[str]:
    cells = []
    base = found.get(compaction_latency.DRAINS[0])
    alloc = faults = 0
    for drain in compaction_latency.DRAINS:
        row = found.get(drain)
        if row is None or row.faults is None:
            cells.append("")
            continue
        us = [ns / 1000 for ns in row.faults.latency_ns]
        text = f"{fmean(us):,.0f}" + (f" ± {interval(us):,.0f}" if len(us) > 1 else "")
        if base is not None and base is not row and base.faults is not None:
            text += f" ({marked(base.faults.latency_ns, row.faults.latency_ns)})"
        cells.append(text)
        alloc += row.counters.get("vmstat.thp_fault_alloc", 0)
        faults += row.folios * len(row.faults.ns)
    cells.append(f"{alloc / faults:.0%}" if faults else "")
    beside = published.by_fault_latency().get(threads)
    if beside is None:
        return [*cells, "", ""]
    return [*cells, f"{beside[0]:,.0f}", f"{beside[1]:,.0f} ({change(*beside):+.2f}%)"]


def _kept(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of both kernels that belong together."""
    base, other = kept_compound.KERNELS
    keys = {(row.condition, row.cpus, row.threads, row.kernel): row for row in rows}
    return [
        (row, keys[row.condition, row.cpus, row.threads, other])
        for (_, _, _, kernel), row in keys.items()
        if kernel == base and (row.condition, row.cpus, row.threads, other) in keys
    ]


def _sizes(row: Row, rows: Sequence[Row]) -> str:
    """Return the sizes of huge pages and, where there are several, the machine."""
    several = len({each.cpus for each in rows}) > 1
    return f"{row.condition}, {cpus_label(row.cpus)}" if several else row.condition


_KEPT_HEADER = ("sizes", "figure", "base", "kept compound", "published, base", "kept compound")


def _kept_caption(text: str) -> str:
    origin = published.SOURCES["yoo-2025"]
    return f"{text} {_MARKS} Published: {origin.label}, {origin.title}; {origin.hardware}."


def _line(
    sizes: str,
    name: str,
    figures: tuple[Sequence[float], Sequence[float]],
    mean: Callable[[Sequence[float]], float],
    beside: tuple[float, float] | None,
) -> tuple[str, ...]:
    base, other = figures
    digits = 2 if mean(base) < 1000 else 0
    cells = [f"{mean(base):,.{digits}f}", f"{mean(other):,.{digits}f} ({marked(base, other)})"]
    if beside is None:
        cells += ["", ""]
    else:
        digits = 2 if beside[0] < 10000 else 0
        cells += [f"{beside[0]:,.{digits}f}", f"{beside[1]:,.{digits}f} ({change(*beside):+.2f}%)"]
    return (sizes, name, *cells)


def pft_lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of pft."""
    body = []
    for pair in _kept(rows):
        sizes, threads = _sizes(pair[0], rows), pair[0].threads
        beside = published.by_kept_compound(f"PFT, {pair[0].condition}")
        elapsed = [[ns / 1e9 for ns in row.faults.ns] for row in pair if row.faults]
        cpu = [_rates(row, row.faults.cpu_ns) for row in pair if row.faults]
        wall = [_rates(row, row.faults.ns) for row in pair if row.faults]
        for name, figures, mean in (
            ("elapsed", elapsed, fmean),
            ("faults/cpu", cpu, harmonic_mean),
            ("faults/sec", wall, harmonic_mean),
        ):
            key = f"{name}-{threads}"
            body.append(_line(sizes, key, (figures[0], figures[1]), mean, beside.get(key)))
    caption = _kept_caption(
        "Base pages faulted in and freed: seconds (arithmetic mean), and pages for a second of CPU "
        "time and of time (harmonic means)."
    )
    return caption, _KEPT_HEADER, tuple(body)


def _rates(row: Row, times_ns: Sequence[float]) -> list[float]:
    return [row.bytes / BASE_PAGE / (ns / 1e9) for ns in times_ns]


def kernbench_lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of kernbench."""
    body = []
    for pair in _kept(rows):
        sizes = pair[0].condition
        condition = f"kernbench, {sizes}" + ("" if sizes == "16kB" else " THP")
        beside = published.by_kept_compound(condition)
        seen = [row.faults for row in pair if row.faults]
        figures = {
            "user": [[ns / 1e9 for ns in each.user_ns] for each in seen],
            "syst": [
                [(cpu - user) / 1e9 for cpu, user in zip(each.cpu_ns, each.user_ns, strict=True)]
                for each in seen
            ],
            "elsp": [[ns / 1e9 for ns in each.ns] for each in seen],
        }
        for name, (base, other) in figures.items():
            line = _line(sizes, name, (base, other), fmean, beside.get(f"{name}-24"))
            body.append(line)
    caption = _kept_caption(
        f"Seconds, arithmetic means, with {rows[0].threads} compilers at once here, 24 there; what "
        "is compiled is a small part of the kernel here."
    )
    return caption, _KEPT_HEADER, tuple(body)


def pft_path_lines(rows: Sequence[Row]) -> tuple[str, tuple[str, ...], Lines]:
    """Return caption, header and body of pft-path-length."""
    body = []
    for base, other in _kept(rows):
        counts = (base.instructions_per_page, other.instructions_per_page)
        if counts[0] is None or counts[1] is None:
            continue
        body.append(
            (
                base.condition,
                f"{counts[0]:,.1f}",
                f"{counts[1]:,.1f}",
                f"{change(counts[0], counts[1]):+.2f}%",
            )
        )
    header = ("sizes", "base", "kept compound", "change")
    caption = (
        "Instructions for each base page of 4 KB that is faulted in, written to once and freed, "
        "median, counted on one CPU at one instruction a nanosecond."
    )
    return caption, header, tuple(body)


MAKERS: dict[str, Callable[[Sequence[Row]], tuple[str, tuple[str, ...], Lines]]] = {
    "compaction-latency": latency_lines,
    "pft": pft_lines,
    "pft-path-length": pft_path_lines,
    "kernbench": kernbench_lines,
}
