# SPDX-License-Identifier: GPL-2.0-only
"""The tables of a report, as text, for the terminal and for the page alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pagehaul import fault_tables, published
from pagehaul.experiments import EXPERIMENTS
from pagehaul.experiments.cell import BASE_PAGE
from pagehaul.experiments.dma import CPU_FREED
from pagehaul.experiments.placement import PLACEMENTS
from pagehaul.experiments.policy import AUTOMATIC, FORCED, is_forced
from pagehaul.machines import CHANNEL_MB
from pagehaul.results import DETERMINISM, METHODS, Results, Row, find_baseline, is_baseline

TCG_CAVEAT = (
    "GB/s under TCG, an emulator, mean nothing by themselves: only the ratios, measured "
    "alternately in one run, do."
)

COUNTED_CAVEAT = (
    "Accelerator: tcg. This guest has one CPU, and its clock counts instructions, one a "
    "nanosecond: neither what else runs on the host is in these figures, nor what memory and "
    "caches cost."
)

# Where the CPUs are those of a hypervisor or an emulator.
DIES_CAVEAT = (
    "The CPUs of a guest have no caches and no memory path of their own: here spread and fill "
    "differ by chance, or by what their search costs. Whether spreading wins is to be seen on "
    "hardware, by --host."
)

CACHES_CAVEAT = (
    "Emulated CPUs have no caches: here reads differ by chance, and copies by what emulating their "
    "instructions takes. Whether copies past the caches win is to be seen on hardware, by --host "
    "or in a guest of KVM."
)

POLICY_CAVEAT = (
    "forced: so many CPUs are asked however little there is to do; automatic: the kernel decides, "
    "by its defaults. The last column: its speed by that of the fastest other choice of Pagehaul's "
    "kernel, which is named. The fastest of several figures owes something to chance: where all "
    "choices are equally fast, the ratio is below 1."
)

SOFTDMA_CAVEAT = (
    f"Channels are threads of softdma, held to {CHANNEL_MB} MB/s each, on CPUs of their own, half "
    "of the guest's: how they scale, fall back and free the CPU is to be seen, not the speed of "
    "hardware. batch_pages: base pages in a batch."
)

_T = TypeVar("_T")

_COPIERS = ("engines", "helpers", "caller")

_NO_VANILLA = (
    "Measured: ratios to vanilla. Published: GB/s, because no figure of an unmodified kernel was "
    "published."
)


class Column(NamedTuple):
    """What a column of an experiment's table is about; settings are knobs besides the method's."""

    kernel: str
    method: str
    threads: int
    settings: tuple[tuple[str, str], ...] = ()
    channels: int = 0


@dataclass(frozen=True)
class Table:
    """A title, a line of explanation, a header and rows of text, as wide as the header."""

    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def size_label(folio_kb: int) -> str:
    """Return a size of folios for people: 64 KB, 2 MB."""
    for unit, kib in (("GB", 1 << 20), ("MB", 1 << 10)):
        if folio_kb >= kib:
            return f"{folio_kb // kib} {unit}"
    return f"{folio_kb} KB"


def shape_label(folio_kb: int, folios: int) -> str:
    """Return what was moved, for people: 64 KB x 1024."""
    return f"{size_label(folio_kb)} x {folios:,}"


def case_label(row: Row) -> str:
    """Return what methods are compared for, for people: busy, 64 KB x 1024."""
    shape = shape_label(*row.shape)
    return f"{row.condition}, {shape}" if row.condition else shape


def column_of(row: Row) -> Column:
    """Return the column a row belongs to."""
    # What it takes to force a choice depends on what is moved: the choice is the same.
    settings = tuple((FORCED if is_forced(row.settings) else row.settings).items())
    return Column(row.kernel, row.method, row.threads, settings, row.channels)


def column_label(column: Column) -> str:
    """Return a column for people."""
    kernel, method, threads, settings, channels = column
    of_them = f"{channels} channel{'s' if channels > 1 else ''}"
    labels = {
        "serial": "vanilla" if kernel == "vanilla" else "off",
        "callers": f"{kernel}, {threads} callers",
        "batch": "batch",
        "threads": f"{threads} CPUs, copy",
        "parallel": f"{threads} CPUs",
        "faults": f"{kernel}, {threads} threads",
        "dma": of_them,
        "hybrid": f"CPU and {of_them}",
    }
    return ", ".join([labels[method], *_settings_labels(dict(settings))])


def _settings_labels(settings: Mapping[str, str]) -> list[str]:
    if settings == FORCED:
        return ["forced"]
    if settings == AUTOMATIC:
        return ["automatic"]
    return [f"{name} {value}" for name, value in settings.items()]


def accelerator(results: Results, experiment: str) -> str:
    """Return what the experiment ran on: "tcg", "kvm", or "none" for a real machine."""
    kind = EXPERIMENTS[experiment].machine if experiment in EXPERIMENTS else "parallel"
    machine = results.environment.get("machines", {}).get(kind, {})
    return str(machine.get("accelerator", "unknown"))


def _ran_on(name: str) -> str:
    """Return what a caption says of the accelerator `name`, and of speeds under it."""
    return f"Accelerator: {name}." + (f" {TCG_CAVEAT}" if name == "tcg" else "")


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of an experiment, vanilla's first, its serial one before all.

    What the kernel chooses stands behind what it is compared with.
    """
    found = dict.fromkeys(column_of(row) for row in rows)
    return sorted(
        found,
        key=lambda column: (
            column[0] != "vanilla",
            METHODS.index(column[1]),
            column[2],
            column.channels,
            dict(column.settings) == AUTOMATIC,
        ),
    )


def experiment_table(results: Results, experiment: str) -> Table:
    """Return the table of one experiment."""
    rows = results.of(experiment)
    if experiment in fault_tables.MAKERS:
        return _fault_table(results, experiment)
    if any(row.instructions_per_page is not None for row in rows):
        return _path_length_table(results, experiment)
    if any(row.touch is not None for row in rows):
        return _touch_table(results, experiment)
    if any(row.hog is not None for row in rows):
        return _busy_table(results, experiment)
    if any(row.pages_moved is not None for row in rows):
        return _reasons_table(results, experiment)
    if any(row.remap is not None for row in rows):
        return _remap_table(results, experiment)
    if any(row.reads is not None for row in rows):
        return _reads_table(results, experiment)
    if experiment == CPU_FREED.name:
        return _cpu_table(results, experiment)
    heads = columns(rows)
    shapes = dict.fromkeys(row.shape for row in rows)
    cells = {(row.shape, column_of(row)): row for row in rows}
    judged = any(row.settings == AUTOMATIC for row in rows)
    body = []
    for shape in shapes:
        line = [shape_label(*shape)]
        for head in heads:
            row = cells.get((shape, head))
            line.append("" if row is None else _throughput(row, rows))
        if judged:
            line.append(_by_best_fixed([row for row in rows if row.shape == shape]))
        body.append(tuple(line))
    baseline = next((head for head in heads if head[1] == "serial"), None)
    labels = [
        f"{column_label(head)}, GB/s" if head == baseline else column_label(head) for head in heads
    ]
    if judged:
        labels.append("automatic by best fixed")
    ran_on = accelerator(results, experiment)
    caption = "Median speed by the first column's (slowest to fastest)."
    if "off" in labels:
        caption += " off, batch, CPUs: Pagehaul's kernel with the feature off, with batch copy by"
        caption += " the caller alone, with copies shared by so many CPUs, and, as is the default,"
        caption += " with batches shared as well."
    if judged:
        caption += f" {POLICY_CAVEAT}"
    caption += f" {_ran_on(ran_on)}"
    if ran_on != "none" and any("placement" in row.settings for row in rows):
        caption += f" {DIES_CAVEAT}"
    caption += _channels_caveat(rows, ran_on)
    return Table(_title(experiment), caption, ("folios", *labels), tuple(body))


def _by_best_fixed(of_shape: Sequence[Row]) -> str:
    """Return, for people, the speed of the kernel's own choice by that of the best other one."""
    ours = [row for row in of_shape if row.kernel != "vanilla"]
    fixed = [row for row in ours if row.settings != AUTOMATIC]
    automatic = next((row for row in ours if row.settings == AUTOMATIC), None)
    if automatic is None or not fixed:
        return ""
    best = max(fixed, key=lambda row: row.median_gbps)
    return f"{automatic.median_gbps / best.median_gbps:.2f} ({column_label(column_of(best))})"


def _fault_table(results: Results, experiment: str) -> Table:
    caption, header, body = fault_tables.MAKERS[experiment](results.of(experiment))
    name = accelerator(results, experiment)
    if name == "tcg" and "icount" not in EXPERIMENTS[experiment].machine:
        caption += " Accelerator: tcg, an emulator: times mean nothing by themselves."
    return Table(_title(experiment), caption, header, body)


def _channels_caveat(rows: Sequence[Row], ran_on: str) -> str:
    """Return what a caption says of channels that are not those of hardware, with a blank."""
    return f" {SOFTDMA_CAVEAT}" if ran_on != "none" and any(row.channels for row in rows) else ""


def _title(experiment: str) -> str:
    known = EXPERIMENTS.get(experiment)
    return f"{experiment}: {known.title}" if known else experiment


def _throughput(row: Row, rows: Sequence[Row]) -> str:
    if is_baseline(row, rows) or row.vs_vanilla is None:
        return f"{row.median_gbps:.2f} ({min(row.gbps):.2f}-{max(row.gbps):.2f})"
    text = f"{row.vs_vanilla:.2f}x"
    if row.vs_vanilla_min is not None and row.vs_vanilla_max is not None:
        text += f" ({row.vs_vanilla_min:.2f}-{row.vs_vanilla_max:.2f})"
    return text


def _with_baseline(
    rows: Sequence[Row], seen: Callable[[Row], _T | None]
) -> Iterator[tuple[Row, Row, _T, _T]]:
    """Yield each row and its baseline, with what was seen of both, if it was seen of both."""
    for row in rows:
        baseline = find_baseline(row, rows)
        if baseline is None:
            continue
        ours, base = seen(row), seen(baseline)
        if ours is not None and base is not None:
            yield row, baseline, ours, base


def _us(ns: float, base_ns: float, digits: int = 0) -> str:
    """Return a time in microseconds, and by the baseline's."""
    return f"{ns / 1000:,.{digits}f} ({ns / max(1.0, base_ns):.2f})"


def _touch_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row, baseline, touch, base in _with_baseline(rows, lambda row: row.touch):
        every = [""] * 4
        if touch.all is not None:
            every = [f"{touch.all.count:,}"]
            every += [f"{ns / 1000:,.1f}" for ns in (touch.all.p50_ns, touch.all.p99_ns)]
            every.append(
                "" if base.all is None else f"{touch.all.p99_ns / max(1, base.all.p99_ns):.2f}"
            )
        body.append(
            (
                shape_label(*row.shape),
                column_label(column_of(row)),
                *every,
                f"{touch.max_ns / 1000:,.1f}",
                f"{touch.moves:,}",
                _us(touch.p50_ns, base.p50_ns, 1),
                f"{row.median_gbps / baseline.median_gbps:.2f}x",
            )
        )
    header = (
        "folios",
        "method",
        "touches",
        "50%, us",
        "99%, us",
        "99% by vanilla's",
        "longest, us",
        "times",
        "longest each time, us",
        "speed",
    )
    caption = (
        "How long, in microseconds, a thread waited for a word of the memory while it moved: in "
        "50% of all touches of a turn, in 99% of them (medians over the turns), and at most; lower "
        "is better. A touch that waits "
        "counts for those, too, that were due meanwhile. longest each time: while it moved there "
        "and back once, median (and by vanilla's). speed: of the moves beside it, by vanilla's. "
        f"{_ran_on(accelerator(results, experiment))}"
    )
    return Table(_title(experiment), caption, header, tuple(body))


def _cpu_time(row: Row, baseline: Row | None) -> str:
    if row.cpu_ns_per_page is None:
        return ""
    text = f"{row.cpu_ns_per_page:,.0f}"
    if baseline is not None and baseline.cpu_ns_per_page:
        text += f" ({row.cpu_ns_per_page / baseline.cpu_ns_per_page:.3f})"
    return text


def _busy_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row in rows:
        baseline = find_baseline(row, rows)
        hog = ["", ""]
        if row.hog is not None:
            hog = [f"{row.hog.share:.0%}", f"{row.hog.lost_ns / 1e6:,.1f}"]
            if baseline is not None and baseline.hog is not None:
                hog[1] += f" ({row.hog.lost_ns / max(1.0, baseline.hog.lost_ns):.2f})"
        body.append(
            (
                shape_label(*row.shape),
                row.condition,
                column_label(column_of(row)),
                f"{len(row.gbps)}",
                _throughput(row, rows),
                _cpu_time(row, baseline),
                *hog,
            )
        )
    header = (
        "folios",
        "machine",
        "method",
        "times",
        "speed",
        "CPU, ns a page",
        "hogs get",
        "hogs lose, ms a move",
    )
    counted = EXPERIMENTS[experiment].machine == "busy-icount"
    caption = (
        "busy: beside a worker of stress-ng --cpu on every CPU. Speed: vanilla's in GB/s, the "
        "others' by vanilla's on the same machine, idle or busy (slowest to fastest). CPU: "
        "time of the caller, and of CPUs that help it, for a base page of 4 KB (and by vanilla's). "
        "hogs get: CPU time that the workers had during a move, of all CPUs' time. hogs lose: the "
        "rest of it (and by vanilla's; lower is better). Medians. "
        f"{COUNTED_CAVEAT if counted else _ran_on(accelerator(results, experiment))}"
    )
    return Table(_title(experiment), caption, header, tuple(body))


def _reasons_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row in rows:
        if row.pages_moved is None:
            continue
        ms = row.pages_moved * BASE_PAGE / row.median_gbps / 1e6
        body.append(
            (
                row.condition,
                shape_label(*row.shape),
                column_label(column_of(row)),
                f"{len(row.gbps)}",
                f"{row.pages_moved:,.0f} of {row.bytes // BASE_PAGE:,}",
                f"{ms:,.1f}",
                _throughput(row, rows),
            )
        )
    header = ("reason", "folios", "method", "times", "pages moved", "ms", "speed")
    caption = (
        "Memory that the kernel moves by itself: base pages of it that moved, and the time that "
        "they took, medians. Speed: vanilla's in GB/s, the others' by vanilla's (slowest to "
        f"fastest). {_ran_on(accelerator(results, experiment))}"
    )
    return Table(_title(experiment), caption, header, tuple(body))


def _remap_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row, baseline, remap, base in _with_baseline(rows, lambda row: row.remap):
        body.append(
            (
                shape_label(*row.shape),
                column_label(column_of(row)),
                f"{remap.moves:,}",
                _us(row.bytes / row.median_gbps, baseline.bytes / baseline.median_gbps),
                _us(remap.first_ns, base.first_ns),
                _us(remap.last_ns, base.last_ns),
                _us(remap.away_ns, base.away_ns),
            )
        )
    header = (
        "folios",
        "method",
        "times",
        "call, us",
        "first, us",
        "last, us",
        "longest away, us",
    )
    caption = (
        "Microseconds (and by vanilla's) of the whole call; from its start until the first, and "
        "the last, of its folios is accessible again; and the longest for which a folio is not. "
        "Medians; lower is better. Tracing the kernel for this takes some time itself, on both "
        "kernels. batch_pages: base pages in a batch; 512 where nothing is said."
    )
    return Table(_title(experiment), caption, header, tuple(body))


def _copied(row: Row, how: str) -> str:
    """Return, for people, how much of the content was copied in that way."""
    by_whom = [row.counters.get(f"migrate_copy.bytes_{w}", 0) for w in _COPIERS]
    return f"{row.counters.get(f'migrate_copy.bytes_{how}', 0) / (sum(by_whom) or 1):.0%}"


def _reads_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row, _, reads, base in _with_baseline(rows, lambda row: row.reads):
        body.append(
            (
                shape_label(*row.shape),
                column_label(column_of(row)),
                f"{reads.moves:,}",
                _throughput(row, rows),
                _copied(row, "nontemporal"),
                f"{reads.warm_ns / 1000:,.1f}",
                _us(reads.own_ns, base.own_ns, 1),
                _us(reads.moved_ns, base.moved_ns, 1),
            )
        )
    header = (
        "folios",
        "method",
        "times",
        "speed",
        "past caches",
        "cached, us",
        "after a move, us",
        "what moved, us",
    )
    ran_on = accelerator(results, experiment)
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's (slowest to fastest). past caches: how "
        "much of the content was copied that way. Microseconds for reading other memory that is "
        "in the caches, reading it again after a move, and reading what has moved (and by "
        f"vanilla's); medians, lower is better. {_ran_on(ran_on)}"
    )
    if ran_on == "tcg":
        caption += f" {CACHES_CAVEAT}"
    return Table(_title(experiment), caption, header, tuple(body))


def _cpu_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    body = []
    for row, _, ours, base in _with_baseline(rows, lambda row: row.cpu_ns_per_page):
        if not base:
            continue
        body.append(
            (
                shape_label(*row.shape),
                column_label(column_of(row)),
                _throughput(row, rows),
                _copied(row, "engines"),
                f"{ours:,.0f}",
                f"{ours / base:.2f}",
            )
        )
    header = ("folios", "method", "speed", "by DMA", "CPU, ns a page", "by vanilla's")
    ran_on = accelerator(results, experiment)
    caption = (
        "Speed: vanilla's in GB/s, the others' by vanilla's (slowest to fastest). by DMA: how "
        "much of the content channels copied. CPU: time of the caller, and of CPUs that help it, "
        "for a base page of 4 KB, without that of the channels; lower is better. "
        f"{_ran_on(ran_on)}{_channels_caveat(rows, ran_on)}"
    )
    return Table(_title(experiment), caption, header, tuple(body))


def path_ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """Instructions of `row` by those of its baseline."""
    baseline = find_baseline(row, rows)
    if baseline is None or not baseline.instructions_per_page or not row.instructions_per_page:
        return None
    return row.instructions_per_page / baseline.instructions_per_page


def _path_length_table(results: Results, experiment: str) -> Table:
    rows = results.of(experiment)
    heads = columns(rows)
    shapes = dict.fromkeys(row.shape for row in rows)
    cells = {(row.shape, column_of(row)): row for row in rows}
    body = []
    for shape in shapes:
        line = [shape_label(*shape)]
        of_shape = [row for row in rows if row.shape == shape]
        for head in heads:
            row = cells.get((shape, head))
            if row is None or row.instructions_per_page is None:
                line.append("")
                continue
            ratio = path_ratio(row, rows)
            count = f"{row.instructions_per_page:,.0f}"
            line.append(
                count if ratio is None or is_baseline(row, rows) else f"{count} ({ratio:.4f})"
            )
        baseline = next((row for row in of_shape if is_baseline(row, rows)), None)
        pages = shape[0] // 4
        per_folio = baseline.instructions_per_page if baseline is not None else None
        line.append(f"{per_folio * pages:,.0f}" if per_folio is not None else "")
        within = sum(row.within(DETERMINISM) for row in of_shape)
        line.append(f"{within} of {sum(len(row.gbps) for row in of_shape)}")
        body.append(tuple(line))
    header = ("folios", *map(column_label, heads), "vanilla, a folio", f"within {DETERMINISM:.1%}")
    caption = (
        "Instructions for each base page of 4 KB (and by vanilla's), median, counted on one CPU at "
        "one instruction a nanosecond; lower is better. The last column: how many counts are no "
        "further from the median of their cell."
    )
    return Table(_title(experiment), caption, header, tuple(body))


def published_table(results: Results, experiment: str) -> Table | None:
    """Return published figures beside an experiment's measured ones, or None without any."""
    makers = {
        "folio-count": _published_folio_count,
        "folio-size": _published_folio_size,
        "classic": _published_classic,
        "busy": _published_busy,
        "placement": _published_placement,
        "dma-folio-size": _published_dma_folio_size,
        "dma-folio-count": _published_dma_folio_count,
    }
    maker = makers.get(experiment)
    return maker(results.of(experiment)) if maker else None


def _measured(rows: Sequence[Row]) -> list[Column]:
    return [head for head in columns(rows) if head[0] == "pagehaul" and head[1] != "serial"]


def _measured_cells(rows: Sequence[Row], shape: tuple[int, int]) -> list[str]:
    cells = {column_of(row): row.vs_vanilla for row in rows if row.shape == shape}
    ratios = [cells.get(head) for head in _measured(rows)]
    return ["" if ratio is None else f"{ratio:.2f}x" for ratio in ratios]


def _measured_labels(rows: Sequence[Row]) -> list[str]:
    return [f"measured, {column_label(head)}" for head in _measured(rows)]


def _caption(source: str, text: str) -> str:
    origin = published.SOURCES[source]
    return f"{text} Published: {origin.label}, {origin.title}; {origin.hardware}."


def _published_folio_count(rows: Sequence[Row]) -> Table:
    threads = (1, 2, 4, 8, 16, 32)
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in rows):
        ratios = published.by_folio_count(folio_kb)
        counts = {row.folios for row in rows if row.folio_kb == folio_kb}
        for folios in sorted(counts | {folios for folios, _ in ratios}):
            line = [shape_label(folio_kb, folios), *_measured_cells(rows, (folio_kb, folios))]
            for count in threads:
                ratio = ratios.get((folios, count))
                line.append("" if ratio is None else f"{ratio:.2f}x")
            body.append(tuple(line))
    header = ("folios", *_measured_labels(rows), *(f"published, {count} thr." for count in threads))
    caption = _caption(
        "yan-2025", "Ratios: measured by the measured vanilla, published by the published vanilla."
    )
    return Table("folio-count beside published figures", caption, header, tuple(body))


def _published_busy(rows: Sequence[Row]) -> Table:
    threads = (1, 2, 4, 8, 16, 32)
    busy = [row for row in rows if row.condition == "busy"]
    by_priority = {
        "normal": [row for row in busy if not row.settings],
        "high": [row for row in busy if row.settings == {"priority": "high"}],
    }
    heads = _measured(by_priority["normal"])
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in busy):
        for priority, measured in by_priority.items():
            ratios = published.by_folio_count(folio_kb, published.BUSY[priority])
            counts = {row.folios for row in busy if row.folio_kb == folio_kb}
            for folios in sorted(counts | {folios for folios, _ in ratios}):
                cells = {
                    column_of(row)._replace(settings=()): row.vs_vanilla
                    for row in measured
                    if row.shape == (folio_kb, folios)
                }
                found = [cells.get(head) for head in heads]
                found += [ratios.get((folios, count)) for count in threads]
                texts = ["" if ratio is None else f"{ratio:.2f}x" for ratio in found]
                body.append((shape_label(folio_kb, folios), priority, *texts))
    header = (
        "folios",
        "priority",
        *(f"measured, {column_label(head)}" for head in heads),
        *(f"published, {count} thr." for count in threads),
    )
    caption = _caption(
        "yan-2025",
        "Ratios on busy machines: measured by the measured vanilla, published by the published "
        "vanilla, with helpers on system_unbound_wq (normal) and system_highpri_wq (high).",
    )
    return Table("busy beside published figures", caption, header, tuple(body))


def _published_folio_size(
    rows: Sequence[Row], engine: str = "CPU threads", unit: str = "thr."
) -> Table:
    figures = published.by_folio_size(engine)
    threads = sorted({count for _, count in figures})
    shapes = {row.folio_kb: row.shape for row in rows}
    body = []
    for folio_kb in sorted({size for size, _ in figures} | set(shapes)):
        line = [size_label(folio_kb)]
        if folio_kb in shapes:
            line += _measured_cells(rows, shapes[folio_kb])
        else:
            line += [""] * len(_measured(rows))
        for count in threads:
            figure = figures.get((folio_kb, count))
            line.append("" if figure is None else f"{figure:.2f}")
        body.append(tuple(line))
    header = (
        "folio",
        *_measured_labels(rows),
        *(f"published, {count} {unit}, GB/s" for count in threads),
    )
    title = f"{rows[0].experiment} beside published figures"
    return Table(title, _caption("garg-2025", _NO_VANILLA), header, tuple(body))


def _published_dma_folio_size(rows: Sequence[Row]) -> Table:
    return _published_folio_size(rows, "DMA offload", "chan.")


def _published_dma_folio_count(rows: Sequence[Row]) -> Table:
    figures = published.by_dma_folio_count()
    shapes = {row.folios: row.shape for row in rows}
    body = []
    for folios in sorted({*figures, *shapes}):
        line = [shape_label(2048, folios)]
        line += _measured_cells(rows, shapes.get(folios, (2048, folios)))
        line.append(f"{figures[folios]:.2f}" if folios in figures else "")
        body.append(tuple(line))
    header = ("folios", *_measured_labels(rows), "published, GB/s")
    return Table(
        "dma-folio-count beside published figures",
        _caption("garg-2025", _NO_VANILLA),
        header,
        tuple(body),
    )


def _published_classic(rows: Sequence[Row]) -> Table:
    names = {"100000 normal pages": (4, 100_000), "195 huge pages": (2048, 195)}
    figures = published.classic()
    conditions = dict.fromkeys(condition for _, condition in figures)
    body = []
    for name, shape in names.items():
        line = [name, *_measured_cells(rows, shape)]
        for condition in conditions:
            gbps, ratio = figures[name, condition]
            line.append(f"{gbps:.2f} GB/s" if condition == "Vanilla" else f"{ratio:.2f}x")
        body.append(tuple(line))
    header = ("", *_measured_labels(rows), *(f"published, {condition}" for condition in conditions))
    caption = _caption(
        "khandual-2017",
        "Ratios: measured by the measured vanilla, published by the published vanilla.",
    )
    return Table("classic beside published figures", caption, header, tuple(body))


def _published_placement(rows: Sequence[Row]) -> Table:
    figures = published.by_placement()
    placed = [row for row in rows if "placement" in row.settings]
    ratios = {(row.shape, row.settings["placement"], row.threads): row.vs_vanilla for row in placed}
    shapes = list(dict.fromkeys(row.shape for row in placed))
    body = []
    for threads in sorted({row.threads for row in placed} | {count for _, count in figures}):
        line = [f"{threads}"]
        for shape in shapes:
            for placement in PLACEMENTS:
                ratio = ratios.get((shape, placement, threads))
                line.append("" if ratio is None else f"{ratio:.2f}x")
        for placement in PLACEMENTS:
            figure = figures.get((placement, threads))
            line.append("" if figure is None else f"{figure:.2f}")
        body.append(tuple(line))
    header = (
        "CPUs",
        *(f"{shape_label(*shape)}, {placement}" for shape in shapes for placement in PLACEMENTS),
        *(f"published, {placement}, GB/s" for placement in PLACEMENTS),
    )
    caption = _caption(
        "garg-2025", "Measured: ratios to vanilla. Published: GB/s by the number of copy threads."
    )
    return Table("placement beside published figures", caption, header, tuple(body))


def all_published_tables() -> list[Table]:
    """Every published throughput of page migration, as it was printed."""
    tables = []
    for (source, title, condition), figures in published.throughput_tables().items():
        cells: dict[str, dict[str, str]] = {}
        for figure in figures:
            error = "" if figure.plus_minus is None else f" ± {figure.plus_minus:.2f}"
            head = figure.column or figure.unit
            cells.setdefault(figure.row, {})[head] = f"{figure.value:.2f}{error}"
        heads = list(dict.fromkeys(head for row in cells.values() for head in row))
        body = tuple((name, *(row.get(head, "") for head in heads)) for name, row in cells.items())
        origin = published.SOURCES[source]
        caption = f"GB/s. {origin.label}: {origin.title}; {origin.hardware}."
        tables.append(Table(f"{title}: {condition}", caption, ("", *heads), body))
    return tables
