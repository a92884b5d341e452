# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of what went on over time, all methods of a case in one."""

from collections.abc import Sequence

from pagehaul.bench.labels import column_label, column_of, columns
from pagehaul.bench.row import Row
from pagehaul.bench.view import Course
from pagehaul.report import chart
from pagehaul.report.chart import Line, Mark, Panel
from pagehaul.report.palette import colour

# Names on the axis of time at most.
_MOST_NAMES = 8
_STEPS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def panels(rows: Sequence[Row], course: Course) -> list[Panel]:
    """Return a panel for each condition of the rows, which are of one machine."""
    found = []
    for condition in dict.fromkeys(row.condition for row in rows):
        drawn = []
        for head in columns(rows):
            mine = [row for row in rows if column_of(row) == head and row.condition == condition]
            marks = [
                Mark(at, value, value, value, "") for row in mine for at, value in course.of(row)
            ]
            if marks:
                dashed = head.kernel == "vanilla"
                drawn.append(Line(column_label(head), colour(head), tuple(marks), dashed=dashed))
        if drawn:
            title = ", ".join(filter(None, (f"{course.title} ({course.unit})", condition)))
            below = "ms from the start of the scene on"
            found.append(chart.lines(title, drawn, _names(drawn), below, ""))
    return found


def _names(drawn: Sequence[Line]) -> dict[float, str]:
    """Return round times, and the ends, which have no names."""
    times = [mark.at for line in drawn for mark in line.marks]
    first, last = min(times), max(times)
    fits = (step for step in _STEPS_MS if (last - first) / step <= _MOST_NAMES)
    step = next(fits, _STEPS_MS[-1])
    names = {first: "", last: ""}
    at = -(-first // step) * step
    while at <= last:
        # There is a zero below zero.
        names[at] = f"{at + 0.0:,.0f}"
        at += step
    return names
