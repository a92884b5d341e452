# SPDX-License-Identifier: GPL-2.0-only
"""Published figures beside measured ones: a line for each of both, a column for each count."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pagehaul.bench import published
from pagehaul.bench.experiments.placement import PLACEMENTS
from pagehaul.bench.labels import Table, column_label, column_of, columns, shape_label, size_label
from pagehaul.bench.results import Results, Row

_THREADS = (1, 2, 4, 8, 16, 32)

_OF_VANILLA = "Ratios: measured by the measured vanilla, published by the published vanilla."

_NO_VANILLA = (
    "Measured: ratios to vanilla. Published: GB/s, because no figure of an unmodified kernel was "
    "published."
)

# Measured lines, by method: with one CPU both are a batch that the caller copies alone.
_METHODS = {"parallel": "here", "threads": "here, copy"}


def published_table(results: Results, experiment: str) -> Table | None:
    """Return published figures beside an experiment's measured ones, or None without any.

    The results are those of one machine model.
    """
    makers: dict[str, Callable[[Sequence[Row]], Table]] = {
        "folio-count": _folio_count,
        "folio-size": _folio_size,
        "classic": _classic,
        "busy": _busy,
        "placement": _placement,
        "dma-folio-size": _dma_folio_size,
        "dma-folio-count": _dma_folio_count,
    }
    maker = makers.get(experiment)
    return maker(results.of(experiment)) if maker else None


def _title(rows: Sequence[Row]) -> str:
    models = dict.fromkeys(f" (model {row.model})" for row in rows if row.model is not None)
    return f"{rows[0].experiment} beside published figures{''.join(models)}"


def _caption(source: str, text: str) -> str:
    origin = published.SOURCES[source]
    return f"{text} Published: {origin.label}, {origin.title}; {origin.hardware}."


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"


def _gbps(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}"


def _by_threads(rows: Iterable[Row], method: str) -> dict[int, float | None]:
    """Return the ratios by number of CPUs; where there are several, of the largest machine."""
    ordered = sorted(rows, key=lambda row: row.cpus)
    wanted = [row for row in ordered if row.method in (method, "batch")]
    return {row.threads: row.vs_vanilla for row in wanted if row.kernel == "pagehaul"}


def _measured_lines(rows: Sequence[Row], counts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return what was measured of one case, with the name of the line in front."""
    lines = []
    for method, name in _METHODS.items():
        if any(row.method == method for row in rows) or (method == "parallel" and rows):
            ratios = _by_threads(rows, method)
            lines.append((name, *(_ratio(ratios.get(count)) for count in counts)))
    return lines


def _counts(rows: Iterable[Row], others: Iterable[int]) -> list[int]:
    ours = {row.threads for row in rows if row.method in ("batch", *_METHODS)}
    return sorted(ours | set(others))


def _heads(counts: Sequence[int], unit: str = "thr.") -> tuple[str, ...]:
    return tuple(f"{count} {unit}" for count in counts)


def _folio_count(rows: Sequence[Row]) -> Table:
    counts = _counts(rows, _THREADS)
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in rows):
        ratios = published.by_folio_count(folio_kb)
        measured = {row.folios for row in rows if row.folio_kb == folio_kb}
        for folios in sorted(measured | {folios for folios, _ in ratios}):
            label = shape_label(folio_kb, folios)
            mine = [row for row in rows if row.shape == (folio_kb, folios)]
            body += [(label, *line) for line in _measured_lines(mine, counts)]
            if any(key[0] == folios for key in ratios):
                texts = [_ratio(ratios.get((folios, count))) for count in counts]
                body.append((label, "published", *texts))
    header = ("folios", "whose", *_heads(counts))
    return Table(_title(rows), _caption("yan-2025", _OF_VANILLA), header, tuple(body))


def _busy(rows: Sequence[Row]) -> Table:
    busy = [row for row in rows if row.condition == "busy"]
    by_priority: Mapping[str, list[Row]] = {
        "normal": [row for row in busy if not row.settings],
        "high": [row for row in busy if row.settings == {"priority": "high"}],
    }
    counts = _counts(busy, _THREADS)
    body = []
    for folio_kb in dict.fromkeys(row.folio_kb for row in busy):
        for priority, measured in by_priority.items():
            ratios = published.by_folio_count(folio_kb, published.BUSY[priority])
            folio_counts = {row.folios for row in busy if row.folio_kb == folio_kb}
            for folios in sorted(folio_counts | {folios for folios, _ in ratios}):
                key = (shape_label(folio_kb, folios), priority)
                mine = [row for row in measured if row.shape == (folio_kb, folios)]
                body += [(*key, *line) for line in _measured_lines(mine, counts)]
                if any(pair[0] == folios for pair in ratios):
                    texts = [_ratio(ratios.get((folios, count))) for count in counts]
                    body.append((*key, "published", *texts))
    caption = _caption(
        "yan-2025",
        f"On busy machines. {_OF_VANILLA} Helpers are on system_unbound_wq (normal) and "
        "system_highpri_wq (high).",
    )
    header = ("folios", "priority", "whose", *_heads(counts))
    return Table(_title(rows), caption, header, tuple(body))


def _by_size(
    rows: Sequence[Row],
    figures: Mapping[tuple[int, int], float],
    counts: Sequence[int],
    unit: str,
    measured: Callable[[Sequence[Row]], list[tuple[str, ...]]],
) -> Table:
    body = []
    for folio_kb in sorted({size for size, _ in figures} | {row.folio_kb for row in rows}):
        label = size_label(folio_kb)
        mine = [row for row in rows if row.folio_kb == folio_kb]
        body += [(label, *line) for line in measured(mine)]
        if any(size == folio_kb for size, _ in figures):
            texts = [_gbps(figures.get((folio_kb, count))) for count in counts]
            body.append((label, "published, GB/s", *texts))
    header = ("folio", "whose", *_heads(counts, unit))
    return Table(_title(rows), _caption("garg-2025", _NO_VANILLA), header, tuple(body))


def _folio_size(rows: Sequence[Row]) -> Table:
    figures = published.by_folio_size()
    counts = _counts(rows, (count for _, count in figures))
    return _by_size(rows, figures, counts, "thr.", lambda mine: _measured_lines(mine, counts))


def _dma_folio_size(rows: Sequence[Row]) -> Table:
    figures = published.by_folio_size("DMA offload")
    channels = {row.channels for row in rows if row.channels}
    counts = sorted(channels | {count for _, count in figures})

    def measured(mine: Sequence[Row]) -> list[tuple[str, ...]]:
        ratios = _by_channels(mine)
        return [("here", *(_ratio(ratios.get(count)) for count in counts))] if ratios else []

    return _by_size(rows, figures, counts, "chan.", measured)


def _by_channels(rows: Sequence[Row]) -> dict[int, float | None]:
    ordered = sorted(rows, key=lambda row: row.cpus)
    return {row.channels: row.vs_vanilla for row in ordered if row.channels}


def _dma_folio_count(rows: Sequence[Row]) -> Table:
    figures = published.by_dma_folio_count()
    measured = {row.folios for row in rows}
    body = []
    for folios in sorted({*figures, *measured}):
        ratios = _by_channels([row for row in rows if row.folios == folios])
        body.append(
            (
                shape_label(2048, folios),
                _ratio(ratios.get(1, next(iter(ratios.values()), None))),
                _gbps(figures.get(folios)),
            )
        )
    header = ("folios", "here", "published, GB/s")
    return Table(_title(rows), _caption("garg-2025", _NO_VANILLA), header, tuple(body))


def _classic(rows: Sequence[Row]) -> Table:
    names = {"100000 normal pages": (4, 100_000), "195 huge pages": (2048, 195)}
    figures = published.classic()
    most = max((row.cpus for row in rows), default=0)
    largest = [row for row in rows if row.cpus == most]
    body = []
    for name, shape in names.items():
        cells = {column_of(row): row.vs_vanilla for row in largest if row.shape == shape}
        for head in columns(largest):
            if head.kernel == "pagehaul" and head.method != "serial" and head in cells:
                body.append((name, f"here, {column_label(head)}", _ratio(cells[head])))
        for (row_name, condition), (gbps, ratio) in figures.items():
            if row_name == name:
                text = f"{gbps:.2f} GB/s" if condition == "Vanilla" else _ratio(ratio)
                body.append((name, f"published, {condition}", text))
    header = ("", "whose", "speed")
    return Table(_title(rows), _caption("khandual-2017", _OF_VANILLA), header, tuple(body))


def _placement(rows: Sequence[Row]) -> Table:
    figures = published.by_placement()
    placed = [row for row in rows if "placement" in row.settings]
    placed.sort(key=lambda row: row.cpus)
    ratios = {(row.shape, row.settings["placement"], row.threads): row.vs_vanilla for row in placed}
    shapes = list(dict.fromkeys(row.shape for row in placed))
    body = []
    for threads in sorted({row.threads for row in placed} | {count for _, count in figures}):
        line = [f"{threads}"]
        for shape in shapes:
            line += [_ratio(ratios.get((shape, placement, threads))) for placement in PLACEMENTS]
        line += [_gbps(figures.get((placement, threads))) for placement in PLACEMENTS]
        body.append(tuple(line))
    header = (
        "CPUs",
        *(f"{shape_label(*shape)}, {placement}" for shape in shapes for placement in PLACEMENTS),
        *(f"published, {placement}, GB/s" for placement in PLACEMENTS),
    )
    caption = _caption(
        "garg-2025", "Measured: ratios to vanilla. Published: GB/s by the number of copy threads."
    )
    return Table(_title(rows), caption, header, tuple(body))


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
