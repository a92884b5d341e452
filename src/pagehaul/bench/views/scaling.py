# SPDX-License-Identifier: GPL-2.0-only
"""How speed grows with CPUs: one caller with helpers beside as many callers of the plain kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagehaul.bench import captions
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import Table, case_label, table_of
from pagehaul.bench.measures import cpu_time
from pagehaul.bench.part import Part
from pagehaul.bench.row import Row
from pagehaul.bench.view import View

# One caller on Pagehaul with a helper on every other CPU; on vanilla a caller on every CPU.
OURS = "ours"
CALLERS = "callers"

_Case = tuple[str, int, int]


@dataclass(frozen=True)
class Point:
    """A measurement with so many CPUs: speed and CPU time by those of one plain caller."""

    cpus: int
    speed: float
    cpu_time: float | None
    row: Row

    @property
    def efficiency(self) -> float:
        """Return what each CPU adds, by what one plain caller does."""
        return self.speed / self.cpus


@dataclass(frozen=True)
class Curves:
    """What was measured of one case, by number of CPUs."""

    label: str
    ours: Mapping[int, Point]
    callers: Mapping[int, Point]

    @property
    def cpus(self) -> list[int]:
        """Numbers of CPUs at which either was measured."""
        return sorted({*self.ours, *self.callers})

    def most(self) -> int:
        """Return the largest number of CPUs at which both were measured, 0 for none."""
        return max({*self.ours} & {*self.callers}, default=0)


def curves(rows: Sequence[Row]) -> list[Curves]:
    """Return the curves of all cases of one machine model, in their order."""
    return [
        Curves(case_label(of_case[0]), _points(of_case, OURS), _points(of_case, CALLERS))
        for of_case in _by_case(rows).values()
    ]


def _by_case(rows: Sequence[Row]) -> dict[_Case, list[Row]]:
    found: dict[_Case, list[Row]] = {}
    for row in rows:
        found.setdefault(row.case, []).append(row)
    return found


def _kind(row: Row) -> str:
    """Return which curve a row belongs to, "" for none."""
    if row.kernel == "vanilla" and row.method in ("callers", "serial"):
        return CALLERS
    default = row.settings in ({}, AUTOMATIC)
    # With no helper, batches are the caller's alone.
    return OURS if row.kernel == "pagehaul" and default and _helped(row) else ""


def _helped(row: Row) -> bool:
    return row.method == "parallel" or (row.method == "batch" and row.threads == 1)


def _points(of_case: Sequence[Row], kind: str) -> dict[int, Point]:
    found: dict[int, Point] = {}
    # Where a number of threads was measured on several machines, the largest one counts.
    for row in sorted(of_case, key=lambda row: row.cpus):
        one = _one_caller(row, of_case)
        if _kind(row) != kind or one is None:
            continue
        ours, base = cpu_time.MEASURE.of(row), cpu_time.MEASURE.of(one)
        by_one = ours / base if ours is not None and base else None
        speed = row.median_gbps / one.median_gbps
        found[row.threads] = Point(row.threads, speed, by_one, row)
    return dict(sorted(found.items()))


def _one_caller(row: Row, of_case: Sequence[Row]) -> Row | None:
    """Return one plain caller on the same machine or, without it, on the smallest one."""
    ones = [each for each in of_case if _kind(each) == CALLERS and each.threads == 1]
    alike = [each for each in ones if each.cpus == row.cpus]
    return min(alike or ones, key=lambda each: each.cpus, default=None)


def _table(part: Part) -> Table:
    lines = []
    for curve in curves(part.rows):
        for cpus in curve.cpus:
            lines.append(
                {
                    "folios": curve.label,
                    "CPUs": f"{cpus}",
                    **_cells("ours", curve.ours.get(cpus)),
                    **_cells("callers", curve.callers.get(cpus)),
                }
            )
    caption = (
        "ours: one caller on Pagehaul's kernel, all other CPUs may help it. callers: as many "
        "callers on the unmodified kernel, each with a part of the memory. Speed by that of one "
        "caller on the unmodified kernel, whose GB/s stand beside it. efficiency: speed by the "
        "number of CPUs. "
        "CPU time: of callers and helpers together, by that of one plain caller; lower is better. "
        f"{captions.ran_on(part)}"
    )
    return table_of(captions.title(part), caption, lines)


def _cells(kind: str, point: Point | None) -> dict[str, str]:
    cells = dict.fromkeys((kind, f"{kind}: efficiency", f"{kind}: CPU time"), "")
    if point is None:
        return cells
    mark = "" if point.row.repeats else captions.MARK
    cells[kind] = f"{point.speed:.2f}x{mark}"
    if kind == CALLERS and point.cpus == 1:
        cells[kind] += f" ({point.row.median_gbps:.2f})"
    cells[f"{kind}: efficiency"] = f"{point.efficiency:.2f}"
    if point.cpu_time is not None:
        cells[f"{kind}: CPU time"] = f"{point.cpu_time:.2f}"
    return cells


# The picture of it is drawn by the curves.
VIEW = View(_table)
