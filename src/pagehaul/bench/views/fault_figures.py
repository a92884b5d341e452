# SPDX-License-Identifier: GPL-2.0-only
"""What tables of faultbench have in common, with published figures beside the measured ones.

As in the published tables, a change in percent stands between asterisks where it is more than
chance: by Welch's test, at 95%.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

from pagehaul.bench import captions, kept_compound, published
from pagehaul.bench.labels import Table, column_label, column_of, cpus_label
from pagehaul.bench.means import differ
from pagehaul.bench.measures.faults import MEASURE as FAULTS
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Figure, Quantity
from pagehaul.bench.row import Row
from pagehaul.bench.view import View

Lines = tuple[tuple[str, ...], ...]

MARKS = "*x%*: a change that is more than chance, by Welch's test at 95%."


def change(base: float, other: float) -> float:
    """Return by how many percent `other` is above `base`."""
    return (other / base - 1) * 100


def marked(base: Sequence[float], other: Sequence[float]) -> str:
    """Return the change of the mean, between asterisks where it is more than chance."""
    text = f"{change(fmean(base), fmean(other)):+.2f}%"
    return f"*{text}*" if differ(base, other) else text


def kept(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of both kernels that belong together."""
    base, other = kept_compound.KERNELS
    keys = {(row.condition, row.cpus, row.threads, row.kernel): row for row in rows}
    return [
        (row, keys[row.condition, row.cpus, row.threads, other])
        for (_, _, _, kernel), row in keys.items()
        if kernel == base and (row.condition, row.cpus, row.threads, other) in keys
    ]


def kept_base(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row of the other kernel that a row with kept compound pages goes with."""
    base, kept_kernel = kept_compound.KERNELS
    if row.kernel != kept_kernel:
        return None
    for other in rows:
        same = (other.condition, other.cpus, other.threads) == (
            row.condition,
            row.cpus,
            row.threads,
        )
        if same and other.kernel == base:
            return other
    return None


# What rows of kept_base() are, for people.
KEPT_BY = "the figure without kept compound pages"


def _label(row: Row, base: Row) -> str:
    """Return the column of a row, without the kernel, of which the picture says enough."""
    del base
    return column_label(column_of(row)).partition(", ")[2]


def quantity(
    name: str,
    of: Callable[[Faults], Sequence[float]],
    base: Callable[[Row, Sequence[Row]], Row | None] = kept_base,
    by: str = KEPT_BY,
) -> Quantity:
    """Return what a picture shows of faultbench: means of a figure of each repetition."""

    def figure(row: Row, other: Row) -> Figure | None:
        seen, beside = FAULTS.of(row), FAULTS.of(other)
        if seen is None or beside is None or not fmean(of(beside)):
            return None
        figures = [each / fmean(of(beside)) for each in of(seen)]
        ratio = fmean(figures)
        return Figure(ratio, min(figures), max(figures), f"{ratio:.2f}x")

    return Quantity(name, figure, base=base, by=by, label=_label)


def sizes_of(row: Row, rows: Sequence[Row]) -> str:
    """Return the sizes of huge pages and, where there are several, the machine."""
    several = len({each.cpus for each in rows}) > 1
    return f"{row.condition}, {cpus_label(row.cpus)}" if several else row.condition


KEPT_HEADER = ("sizes", "figure", "base", "kept compound", "published, base", "kept compound")


def kept_caption(text: str) -> str:
    """Return a caption with where the published figures come from."""
    origin = published.SOURCES["yoo-2025"]
    return f"{text} {MARKS} Published: {origin.label}, {origin.title}; {origin.hardware}."


def line(
    sizes: str,
    name: str,
    figures: tuple[Sequence[float], Sequence[float]],
    mean: Callable[[Sequence[float]], float],
    beside: tuple[float, float] | None,
) -> tuple[str, ...]:
    """Return a line of measured figures of both kernels, and of published ones beside them."""
    base, other = figures
    digits = 2 if mean(base) < 1000 else 0
    cells = [f"{mean(base):,.{digits}f}", f"{mean(other):,.{digits}f} ({marked(base, other)})"]
    if beside is None:
        cells += ["", ""]
    else:
        digits = 2 if beside[0] < 10000 else 0
        cells += [f"{beside[0]:,.{digits}f}", f"{beside[1]:,.{digits}f} ({change(*beside):+.2f}%)"]
    return (sizes, name, *cells)


def view(
    lines: Callable[[Sequence[Row]], tuple[str, tuple[str, ...], Lines]],
    *quantities: Quantity,
) -> View:
    """Return how an experiment of faultbench is told, by what makes caption, header and body."""

    def table(part: Part) -> Table:
        caption, header, body = lines(part.rows)
        if {row.clock for row in part.rows} != {"host"}:
            caption += f" {captions.ran_on(part)}"
        elif captions.accelerator(part) == "tcg":
            caption += " Accelerator: tcg, an emulator: times mean nothing by themselves."
        return Table(captions.title(part), caption, header, body)

    return View(table, quantities, apart=True)
