# SPDX-License-Identifier: GPL-2.0-only
"""The tables of experiments that tell more than a speed: waits, CPU time, and what moved."""

from pagehaul.bench import captions
from pagehaul.bench.cell import BASE_PAGE
from pagehaul.bench.labels import Table, column_label, column_of, shape_label, table_of
from pagehaul.bench.results import Results, Row, find_baseline
from pagehaul.bench.table_cells import (
    case_cells,
    copied,
    cpu_time,
    throughput,
    times_cells,
    us,
    with_baseline,
)


def _method(row: Row) -> dict[str, str]:
    return {"method": column_label(column_of(row))}


def touch_table(results: Results, experiment: str) -> Table:
    """Return the table of how long a thread waited for memory that moved."""
    rows = results.of(experiment)
    lines = []
    for row, baseline, touch, base in with_baseline(rows, lambda row: row.touch):
        line = {
            **case_cells(row, rows),
            **_method(row),
            **dict.fromkeys(("touches", "50%, us", "99%, us"), ""),
            "longest, us": f"{touch.max_ns / 1000:,.1f}",
            **times_cells(row, touch.moves),
            "longest each time, us": us(touch.p50_ns, base.p50_ns, 1),
            "speed": f"{row.median_gbps / baseline.median_gbps:.2f}x",
        }
        if touch.all is not None:
            line["touches"] = f"{touch.all.count:,}"
            line["50%, us"] = f"{touch.all.p50_ns / 1000:,.1f}"
            line["99%, us"] = f"{touch.all.p99_ns / 1000:,.1f}"
            if base.all is not None:
                line["99%, us"] = us(touch.all.p99_ns, base.all.p99_ns, 1)
        lines.append(line)
    caption = (
        "How long, in microseconds, a thread waited for a word of the memory while it moved: in "
        "50% of all touches of a turn, in 99% of them (medians over the turns, and by vanilla's), "
        "and at most; lower is better. A touch that waits counts for those, too, that were due "
        "during the wait. longest each time: while it moved there and back once, median (and by "
        "vanilla's). speed: of the moves beside it, by vanilla's. "
        f"{captions.ran_on(results, experiment)}"
    )
    return table_of(captions.title(results, experiment), caption, lines)


def busy_table(results: Results, experiment: str) -> Table:
    """Return the table of moves beside hogs, and of what those lose."""
    rows = results.of(experiment)
    lines = []
    for row in rows:
        baseline = find_baseline(row, rows)
        share = lost = ""
        if row.hog is not None:
            share, lost = f"{row.hog.share:.0%}", f"{row.hog.lost_ns / 1e6:,.1f}"
            if baseline is not None and baseline.hog is not None:
                lost += f" ({row.hog.lost_ns / max(1.0, baseline.hog.lost_ns):.2f})"
        lines.append(
            {
                **case_cells(row, rows, shape_label(*row.shape)),
                "machine": row.condition,
                **_method(row),
                **times_cells(row, len(row.gbps)),
                "speed": throughput(row, rows),
                "CPU, ns a page": cpu_time(row, baseline),
                "hogs get": share,
                "hogs lose, ms a move": lost,
            }
        )
    caption = (
        "busy: beside a worker of stress-ng --cpu on every CPU. Speed: vanilla's in GB/s, the "
        "others' by vanilla's on the same machine, idle or busy. CPU: time of the caller, and of "
        "CPUs that help it, for a base page of 4 KB (and by vanilla's). hogs get: CPU time that "
        "the workers had during a move, of all CPUs' time. hogs lose: the rest of it (and by "
        f"vanilla's; lower is better). Medians. {captions.ran_on(results, experiment)}"
    )
    return table_of(captions.title(results, experiment), caption, lines)


def reasons_table(results: Results, experiment: str) -> Table:
    """Return the table of memory that the kernel moves by itself."""
    rows = results.of(experiment)
    lines = []
    for row in rows:
        if row.pages_moved is None:
            continue
        ms = row.pages_moved * BASE_PAGE / row.median_gbps / 1e6
        lines.append(
            {
                "reason": row.condition,
                **case_cells(row, rows, shape_label(*row.shape)),
                **_method(row),
                **times_cells(row, len(row.gbps)),
                "pages moved": f"{row.pages_moved:,.0f} of {row.bytes // BASE_PAGE:,}",
                "ms": f"{ms:,.1f}",
                "speed": throughput(row, rows),
            }
        )
    caption = (
        "Memory that the kernel moves by itself: base pages of it that moved, and the time that "
        "they took, medians. Speed: vanilla's in GB/s, the others' by vanilla's. "
        f"{captions.ran_on(results, experiment)}"
    )
    return table_of(captions.title(results, experiment), caption, lines)


def remap_table(results: Results, experiment: str) -> Table:
    """Return the table of how long folios are out of the page tables."""
    rows = results.of(experiment)
    lines = []
    for row, baseline, remap, base in with_baseline(rows, lambda row: row.remap):
        call_ns, base_ns = (each.bytes / each.median_gbps for each in (row, baseline))
        lines.append(
            {
                **case_cells(row, rows),
                **_method(row),
                **times_cells(row, remap.moves),
                "call, us": us(call_ns, base_ns),
                "first, us": us(remap.first_ns, base.first_ns),
                "last, us": us(remap.last_ns, base.last_ns),
                "longest away, us": us(remap.away_ns, base.away_ns),
            }
        )
    caption = (
        "Microseconds (and by vanilla's) of the whole call; from its start until the first, and "
        "the last, of its folios is accessible again; and the longest for which a folio is not. "
        "Medians; lower is better. Tracing the kernel for this takes some time itself, on both "
        "kernels. batch_pages: base pages in a batch; 512 where nothing is said. "
        f"{captions.ran_on(results, experiment)}"
    )
    return table_of(captions.title(results, experiment), caption, lines)


def reads_table(results: Results, experiment: str) -> Table:
    """Return the table of what moves leave of the caches."""
    rows = results.of(experiment)
    lines = []
    for row, _, reads, base in with_baseline(rows, lambda row: row.reads):
        lines.append(
            {
                **case_cells(row, rows),
                **_method(row),
                **times_cells(row, reads.moves),
                "speed": throughput(row, rows),
                "past caches": copied(row, "nontemporal"),
                "cached, us": f"{reads.warm_ns / 1000:,.1f}",
                "after a move, us": us(reads.own_ns, base.own_ns, 1),
                "what moved, us": us(reads.moved_ns, base.moved_ns, 1),
            }
        )
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's. past caches: how much of the content "
        "was copied that way. Microseconds for reading other memory that is in the caches, "
        "reading it again after a move, and reading what has moved (and by vanilla's); medians, "
        f"lower is better. {captions.ran_on(results, experiment)}"
    )
    if captions.emulated(results, experiment):
        caption += f" {captions.CACHES_CAVEAT}"
    return table_of(captions.title(results, experiment), caption, lines)


def cpu_table(results: Results, experiment: str) -> Table:
    """Return the table of what CPU time moves take, with and without DMA channels."""
    rows = results.of(experiment)
    lines = []
    for row, _, ours, base in with_baseline(rows, lambda row: row.cpu_ns_per_page):
        if not base:
            continue
        lines.append(
            {
                **case_cells(row, rows),
                **_method(row),
                "speed": throughput(row, rows),
                "by DMA": copied(row, "engines"),
                "CPU, ns a page": f"{ours:,.0f}",
                "by vanilla's": f"{ours / base:.2f}",
            }
        )
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's. by DMA: how much of the content "
        "channels copied. CPU: time of the caller, and of CPUs that help it, for a base page of "
        "4 KB, without that of the channels; lower is better. "
        f"{captions.ran_on(results, experiment)}{captions.channels_caveat(results, experiment)}"
    )
    return table_of(captions.title(results, experiment), caption, lines)
