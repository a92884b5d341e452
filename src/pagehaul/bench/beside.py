# SPDX-License-Identifier: GPL-2.0-only
"""Published figures beside measured ones: a line for each of both, a column for each count."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pagehaul.bench import published
from pagehaul.bench.labels import Table, size_label
from pagehaul.bench.row import Row

THREADS = (1, 2, 4, 8, 16, 32)

OF_VANILLA = "Ratios: measured by the measured vanilla, published by the published vanilla."

NO_VANILLA = (
    "Measured: ratios to vanilla. Published: GB/s, because no figure of an unmodified kernel was "
    "published."
)

# Measured lines, by method: with one CPU both are a batch that the caller copies alone.
_METHODS = {"parallel": "here", "threads": "here, copy"}


def title(rows: Sequence[Row]) -> str:
    """Return the title of the table of some rows."""
    models = dict.fromkeys(f" (model {row.model})" for row in rows if row.model is not None)
    return f"{rows[0].experiment} beside published figures{''.join(models)}"


def caption(source: str, text: str) -> str:
    """Return a text with where the published figures come from."""
    origin = published.SOURCES[source]
    return f"{text} Published: {origin.label}, {origin.title}; {origin.hardware}."


def ratio(ratio: float | None) -> str:
    """Return a ratio for people, nothing for None."""
    return "" if ratio is None else f"{ratio:.2f}x"


def gbps(figure: float | None) -> str:
    """Return a speed for people, nothing for None."""
    return "" if figure is None else f"{figure:.2f}"


def by_threads(rows: Iterable[Row], method: str) -> dict[int, float | None]:
    """Return the ratios by number of CPUs; where there are several, of the largest machine."""
    ordered = sorted(rows, key=lambda row: row.cpus)
    wanted = [row for row in ordered if row.method in (method, "batch")]
    return {row.threads: row.vs_vanilla for row in wanted if row.kernel == "pagehaul"}


def measured_lines(rows: Sequence[Row], counts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return what was measured of one case, with the name of the line in front."""
    lines = []
    for method, name in _METHODS.items():
        if any(row.method == method for row in rows) or (method == "parallel" and rows):
            ratios = by_threads(rows, method)
            lines.append((name, *(ratio(ratios.get(count)) for count in counts)))
    return lines


def counts(rows: Iterable[Row], others: Iterable[int]) -> list[int]:
    """Return the numbers of CPUs of the columns, those of `others` included."""
    ours = {row.threads for row in rows if row.method in ("batch", "pool", *_METHODS)}
    return sorted(ours | set(others))


def heads(counts: Sequence[int], unit: str = "thr.") -> tuple[str, ...]:
    """Return the heads of the columns."""
    return tuple(f"{count} {unit}" for count in counts)


def by_size(
    rows: Sequence[Row],
    figures: Mapping[tuple[int, int], float],
    counts: Sequence[int],
    unit: str,
    measured: Callable[[Sequence[Row]], list[tuple[str, ...]]],
) -> Table:
    """Return a table by folio size, in which `measured` makes the lines of the rows of a size."""
    body = []
    for folio_kb in sorted({size for size, _ in figures} | {row.folio_kb for row in rows}):
        label = size_label(folio_kb)
        mine = [row for row in rows if row.folio_kb == folio_kb]
        body += [(label, *line) for line in measured(mine)]
        if any(size == folio_kb for size, _ in figures):
            texts = [gbps(figures.get((folio_kb, count))) for count in counts]
            body.append((label, "published, GB/s", *texts))
    header = ("folio", "whose", *heads(counts, unit))
    return Table(title(rows), caption("garg-2025", NO_VANILLA), header, tuple(body))


def by_channels(rows: Sequence[Row]) -> dict[int, float | None]:
    """Return the ratios by number of channels; of several machines, those of the largest."""
    ordered = sorted(rows, key=lambda row: row.cpus)
    return {row.channels: row.vs_vanilla for row in ordered if row.channels}


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
