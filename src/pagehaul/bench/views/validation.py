# SPDX-License-Identifier: GPL-2.0-only
"""Published ratios beside those that a machine model gives for the same design."""

from collections.abc import Sequence
from dataclasses import dataclass

from pagehaul.bench import captions, published
from pagehaul.bench.labels import Table, case_label, column_label, column_of, table_of
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Figure, Quantity
from pagehaul.bench.row import Row
from pagehaul.bench.view import View
from pagehaul.errors import PagehaulError
from pagehaul.guest import models

# A ratio that is further from the published one than this part of it is marked.
TOLERANCE = 0.25

OFF_MARK = "!"

# How the source of a parameter begins that was adjusted until the model gave a published figure.
_ADJUSTED = "adjusted on: "


@dataclass(frozen=True)
class Comparison:
    """One ratio to one thread, or to one channel: as published, and of the model."""

    model: str
    series: str
    label: str
    count: int
    published: float
    measured: float
    row: Row

    @property
    def deviation(self) -> float:
        """Return how far the model is from what was published, as a part of that."""
        return self.measured / self.published - 1

    @property
    def good(self) -> bool:
        """Whether the model is near enough."""
        return abs(self.deviation) <= TOLERANCE

    @property
    def why(self) -> str | None:
        """Return why the model is not, as its file says; None where it does not."""
        for each in _deviations(self.model):
            most = self.row.folios if each.most_folios is None else each.most_folios
            same = (each.series, each.folio_kb) == (self.series, self.row.folio_kb)
            if same and self.row.folios <= most:
                return " ".join(each.why.split())
        return None


def _deviations(model: str) -> tuple[models.Deviation, ...]:
    try:
        return models.load(model).deviations
    except PagehaulError:
        # Stored results may be of a model that is gone.
        return ()


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """Return all that can be compared: rows of a model whose machine figures were published of."""
    found = ((row, _one_of(row, rows)) for row in _largest_machines(rows))
    compared = (_comparison(row, one) for row, one in found if one is not None)
    return [each for each in compared if each is not None]


def _one_of(row: Row, rows: Sequence[Row]) -> Row | None:
    return _one(row, _series(row), rows)


def _comparison(row: Row, one: Row) -> Comparison | None:
    """Return what a row says by that of one thread, None where nothing of it was published."""
    series = _series(row)
    count = row.channels or row.threads
    if row.model is None or series is None or count == 1:
        return None
    ratios = published.to_one(row.model, series, *row.shape)
    if count not in ratios:
        return None
    measured = row.median_gbps / one.median_gbps
    return Comparison(row.model, series, case_label(row), count, ratios[count], measured, row)


def _largest_machines(rows: Sequence[Row]) -> list[Row]:
    """Return of cells that were measured on several machines those of the largest one."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        settings = tuple(sorted(row.settings.items()))
        key = (row.model, row.kernel, row.method, row.case, settings, row.threads, row.channels)
        if key not in best or best[key].cpus < row.cpus:
            best[key] = row
    return list(best.values())


def _series(row: Row) -> str | None:
    """Return which published figures a row is like, None for none: the design must be theirs."""
    if row.kernel == "vanilla":
        return None
    if row.method == "dma":
        return published.CHANNELS
    if row.method == "threads" or (row.method, row.threads) == ("batch", 1):
        return row.settings.get("placement", published.THREADS)
    return None


def _one(row: Row, series: str | None, rows: Sequence[Row]) -> Row | None:
    """Return the row of one thread, or of one channel, that goes with `row`."""
    ones = [
        each
        for each in rows
        if (each.model, each.case, each.kernel) == (row.model, row.case, row.kernel)
        and (each.channels or each.threads) == 1
        and _alike(_series(each), series)
    ]
    # On the same machine, if it was measured there, and with the same settings.
    ones.sort(key=lambda each: (each.cpus != row.cpus, each.settings != row.settings))
    return ones[0] if ones else None


def _alike(one: str | None, series: str | None) -> bool:
    """Whether a row of one thread is the base of a series: placement is no matter of one."""
    of_threads = (published.THREADS, *published.PLACEMENTS)
    return one == series or (one in of_threads and series in of_threads)


def adjusted_on(model: str) -> tuple[str, ...]:
    """Return the published figures on which a model was adjusted: on those it is not judged."""
    try:
        sources = models.load(model).sources.values()
    except PagehaulError:
        # Stored results may be of a model that is gone.
        return ()
    texts = [" ".join(source.split()) for source in sources]
    figures = [text.removeprefix(_ADJUSTED) for text in texts if text.startswith(_ADJUSTED)]
    # The other parameters of a copy name "the same figure".
    own = [figure.split(";")[0] for figure in figures if not figure.startswith("the same")]
    return tuple(dict.fromkeys(own))


def _origin(model: str) -> str:
    """Return where the published figures come from, and which of them made the model."""
    source = published.SOURCES[published.MODELS[model]]
    text = f"Published: {source.label}, {source.title}; {source.hardware}."
    adjusted = adjusted_on(model)
    return f"{text} Adjusted on: {'; '.join(adjusted)}." if adjusted else text


def _mark(each: Comparison, reasons: Sequence[str]) -> str:
    """Return what follows a deviation: nothing, a mark, or the number of its reason."""
    if each.good:
        return ""
    return f" {OFF_MARK} ({reasons.index(each.why) + 1})" if each.why else f" {OFF_MARK}"


def _table(part: Part) -> Table:
    rows = part.rows
    compared = comparisons(rows)
    reasons = list(dict.fromkeys(each.why for each in compared if not each.good and each.why))
    lines = [
        {
            "published": each.series,
            "folios": each.label,
            "of them": f"{each.count}",
            "to one": f"{each.published:.2f}x",
            "model": f"{each.measured:.2f}x{'' if each.row.repeats else captions.MARK}",
            "deviation": f"{each.deviation:+.0%}{_mark(each, reasons)}",
        }
        for each in compared
    ]
    named = dict.fromkeys(str(row.model) for row in rows)
    caption = (
        "Speed with so many threads, or DMA channels, by that of one: as published, and in the "
        f"model. {OFF_MARK}: more than {TOLERANCE:.0%} from what was published. "
        if lines
        else "Of these cells and this machine nothing was published. "
    )
    caption += "".join(f"({number}) {why} " for number, why in enumerate(reasons, start=1))
    caption += "".join(f"{_origin(model)} " for model in named if model in published.MODELS)
    caption += captions.ran_on(part)
    return table_of(captions.title(part), caption, lines)


def _figure(row: Row, one: Row) -> Figure | None:
    found = _comparison(row, one)
    if found is None:
        return None
    ratio = 1 + found.deviation
    return Figure(ratio, ratio, ratio, f"{ratio:.2f}x")


def _label(row: Row, one: Row) -> str:
    del one
    return column_label(column_of(row)._replace(settings=()))


RATIO = Quantity(
    "Speed by that of one (1: as published)",
    _figure,
    base=_one_of,
    by="the published figure",
    label=_label,
)

VIEW = View(_table, (RATIO,), apart=True)
