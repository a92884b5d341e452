# SPDX-License-Identifier: GPL-2.0-only
"""The picture of scaling: speed by CPUs, on logarithmic axes, with a line for what is ideal."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from pagehaul.results import Row
from pagehaul.scaling import Curves, Point, curves

# Labels at the ends of lines are no nearer to each other than this part of the axis.
_LABEL_PART = 0.06


def scaling_figure(rows: Sequence[Row], ink: str, soft: str, colours: Sequence[str]) -> Figure:
    """Return the picture of the scaling rows of one machine model."""
    figure = Figure(figsize=(9.5, 5.6), layout="constrained")
    axes = figure.subplots()
    found = curves(rows)
    counts = sorted({cpus for curve in found for cpus in curve.cpus})
    most = max(counts, default=1)
    axes.plot([1, most], [1, most], ":", color=ink, linewidth=1)
    ends = [(float(most), "ideal", ink)]
    for number, curve in enumerate(found):
        colour = colours[number % len(colours)]
        ends += _draw(axes, curve, colour)
    _axis(axes, counts, [point.speed for curve in found for point in _all(curve)])
    _label(axes, most, ends)
    axes.set_xlabel("CPUs")
    axes.set_ylabel("speed, one plain caller = 1")
    axes.grid(color=soft, alpha=0.3, linewidth=0.6)
    models = ", ".join(dict.fromkeys(f", model {row.model}" for row in rows if row.model))
    axes.set_title(
        f"One caller with helpers (solid), plain callers (dashed){models}", loc="left", fontsize=10
    )
    return figure


def _all(curve: Curves) -> list[Point]:
    return [*curve.ours.values(), *curve.callers.values()]


def _draw(axes: Axes, curve: Curves, colour: str) -> list[tuple[float, str, str]]:
    """Draw both lines of a case; return where they end, and what to write there."""
    ends = []
    lines: tuple[tuple[str, str, Mapping[int, Point]], ...] = (
        ("o-", f"{curve.label}, ours", curve.ours),
        ("o--", f"{curve.label}, callers", curve.callers),
    )
    for style, label, points in lines:
        speeds = [point.speed for point in points.values()]
        axes.plot(
            list(points),
            speeds,
            style,
            color=colour,
            markersize=4 if style == "o-" else 2.5,
            linewidth=1.6 if style == "o-" else 1,
        )
        # A page of 1 GB has one plain caller, which needs no name.
        if len(speeds) > 1:
            ends.append((speeds[-1], label, colour))
    return ends


def _axis(axes: Axes, counts: Sequence[int], speeds: Sequence[float]) -> None:
    most = max([*counts, *speeds], default=1.0)
    least = min([1.0, *speeds])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    steps = range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)
    powers = [2.0**step for step in steps]
    axes.set_ylim(powers[0], powers[-1] * 1.1)
    for axis, places in ((axes.xaxis, [float(count) for count in counts]), (axes.yaxis, powers)):
        axis.set_major_locator(FixedLocator(places))
        axis.set_major_formatter(FixedFormatter([f"{place:g}" for place in places]))
        axis.set_minor_locator(NullLocator())


def _label(axes: Axes, most: int, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write what lines are at their right ends, from the top down, so that all can be read."""
    low, high = (math.log2(edge) for edge in axes.get_ylim())
    space = (high - low) * _LABEL_PART
    ordered = sorted(ends, key=lambda end: -end[0])
    places: list[float] = []
    for speed, _, _ in ordered:
        place = math.log2(speed)
        places.append(min(place, places[-1] - space) if places else place)
    # What does not fit below goes up again.
    for number in reversed(range(len(places))):
        floor = low + space / 2 if number + 1 == len(places) else places[number + 1] + space
        places[number] = max(places[number], floor)
    for (speed, text, colour), place in zip(ordered, places, strict=True):
        axes.annotate(
            text,
            (most, speed),
            xytext=(most * 1.12, 2**place),
            color=colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
        )
