# SPDX-License-Identifier: GPL-2.0-only
"""Pictures as SVG that grows with the page while its text keeps its size.

Places from left to right are parts of the width, those from top to bottom are pixels: a browser
stretches lines, and no letter. Axes are logarithmic, and 1.0 is drawn. Labels stand beside what
they name, in room that each panel keeps free for them.
"""

import itertools
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from pagehaul.report.palette import Colour

FONT_PX = 12
# The width of a letter, if the font is a wide one, and the height of a line.
_LETTER = 7.2
_LINE = 15
# Longer labels are broken.
LABEL_LETTERS = 20
_HEADING_LETTERS = 40

_TICKS_WIDTH = 46
_LEAST_HEIGHT = 150
_EDGE = 8
# The part of the width between the first and the last place, in percent.
_LEFT, _RIGHT = 3.0, 95.0
_MOST_DOT_TICKS = 4
# Pixels between two names.
_GAP = 4
_MOST_TICKS = 6
# Pixels of a panel on a narrow page, and what is left of them for its lines beside usual labels.
_NARROW_PANEL = 370
_NARROW = 170
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# A wider range than this has powers of two for its ticks.
_WIDE = 3.0
# No figure is drawn below this one, which stands for all that are next to nothing.
LEAST = 1 / 64


@dataclass(frozen=True)
class Mark:
    """A figure and the range of its repetitions; `at` is its place on the other axis."""

    at: float
    value: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True)
class Line:
    """Figures that belong together, from left to right; without a label none is written."""

    label: str
    colour: Colour | None
    marks: tuple[Mark, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    """A figure in a line of its own, with its label before it and its text behind it."""

    label: str
    colour: Colour
    mark: Mark
    text: str


@dataclass(frozen=True)
class Panel:
    """One picture: a title, the SVG, what is below it, and the letters of its longest label."""

    title: str
    svg: str
    below: str
    letters: int
    sides: tuple[float, float]


def figure(title: str, panels: Sequence[Panel]) -> str:
    """Return panels side by side below one title, as many as the page has room for."""
    least = 19 if max(panel.letters for panel in panels) <= 10 else 27
    drawn = "\n".join(_panel(panel) for panel in panels)
    return (
        f'<figure class="plot">\n<figcaption>{escape(title)}</figcaption>\n'
        f'<div class="panels" style="--least:{least}rem">\n{drawn}\n</div>\n</figure>'
    )


def _panel(panel: Panel) -> str:
    left, right = panel.sides
    return (
        f'<div class="panel"><div class="head">{escape(panel.title)}</div>\n'
        f'<div class="room" style="padding:0 {right:.0f}px 0 {left:.0f}px">{panel.svg}</div>\n'
        f'<div class="below">{escape(panel.below)}</div></div>'
    )


def ticks(low: float, high: float) -> list[float]:
    """Return round figures from `low` to `high`, 1.0 among them if it is in there."""
    if high / low > _WIDE:
        first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
        every = -(-(last - first + 1) // _MOST_TICKS)
        return [2.0**step for step in range(first, last + 1) if step % every == 0]
    step = next((each for each in _STEPS if (high - low) / each <= _MOST_TICKS), _STEPS[-1])
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 4) for number in range(first, last + 1)]


def _short(tick: float) -> str:
    """Return the name of a tick; of a small one only the first two digits, which fit."""
    return f"{tick:.2g}" if tick < 0.1 else f"{tick:g}"


def _range(marks: Sequence[Mark]) -> tuple[float, float]:
    """Return the ends of an axis with all figures, their ranges and 1.0, and some room."""
    figures = [max(LEAST, each) for mark in marks for each in (mark.low, mark.value, mark.high)]
    low, high = min([1.0, *figures]), max([1.0, *figures])
    room = max(1.01, (high / low) ** 0.06)
    return low / room, high * room


def _part(value: float, low: float, high: float) -> float:
    """Return where a figure is on a logarithmic axis, from 0 to 1."""
    return (math.log(max(LEAST, value)) - math.log(low)) / (math.log(high) - math.log(low))


def _percent(part: float) -> float:
    """Return which part of the whole width is a part of that between the first and last place."""
    return _LEFT + part * (_RIGHT - _LEFT)


def _text(
    x: float, y: float, text: str, dx: float = 0, anchor: str = "start", kind: str = ""
) -> str:
    shift = f' dx="{dx:g}"' if dx else ""
    end = f' text-anchor="{anchor}"' if anchor != "start" else ""
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.2f}%" y="{y:.1f}"{shift}{end}>{escape(text)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.2f}%" y1="{y1:.1f}" x2="{x2:.2f}%" y2="{y2:.1f}"/>'


def _circle(x: float, y: float, tip: str) -> str:
    return f'<circle cx="{x:.2f}%" cy="{y:.1f}" r="3.5"><title>{escape(tip)}</title></circle>'


def _group(colour: Colour | None, parts: Sequence[str]) -> str:
    style = f' class="hue" style="{colour.style}"' if colour else ""
    return f"<g{style}>{''.join(parts)}</g>"


def _svg(height: float, name: str, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" width="100%" height="{height:.0f}" aria-label="{escape(name)}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def lines(
    title: str, drawn: Sequence[Line], names: Mapping[float, str], below: str, unit: str = "x"
) -> Panel:
    """Return a panel of lines over places that have names; each line is named at its right end.

    Raises ValueError when a line has two figures at one place, which would be a vertical line.
    """
    for line in drawn:
        if len({mark.at for mark in line.marks}) != len(line.marks):
            raise ValueError(f"{title}: {line.label} has several figures at one place")
    labels = [textwrap.wrap(line.label, LABEL_LETTERS) for line in drawn]
    height = max(_LEAST_HEIGHT, _LINE * sum(map(len, labels))) + 2 * _EDGE
    low, high = _range([mark for line in drawn for mark in line.marks])
    first, last = min(names), max(names)

    def across(at: float) -> float:
        return _percent((at - first) / (last - first) if last > first else 0.5)

    def place(mark: Mark) -> tuple[float, float]:
        return across(mark.at), level(mark.value)

    def level(value: float) -> float:
        return _EDGE + (1 - _part(value, low, high)) * (height - 2 * _EDGE)

    parts = []
    named = _named(names)
    for tick in ticks(low, high):
        parts.append(_stroke(0, level(tick), 100, level(tick), "one" if tick == 1 else "grid"))
        parts.append(_text(0, level(tick) + 4, f"{_short(tick)}{unit}", -6, "end", "tick"))
    for at, name in names.items():
        x = across(at)
        parts.append(_stroke(x, height - 3, x, height, "tick"))
        if at in named:
            parts.append(_text(x, height + 14, name, 0, "middle", "tick"))
    ends = [
        level(line.marks[-1].value) if label else 0.0
        for line, label in zip(drawn, labels, strict=True)
    ]
    places = _apart(ends, [len(label) for label in labels], height)
    for line, label, y in zip(drawn, labels, places, strict=True):
        own = [*_stretch(line, place, level)]
        if label:
            x, end = place(line.marks[-1])
            own.append(_stroke(x, end, 99, y, "leader"))
            top = y + 4 - (len(label) - 1) * _LINE / 2
            own += [_text(100, top + _LINE * n, part, 3) for n, part in enumerate(label)]
        parts.append(_group(line.colour, own))
    letters = max((len(part) for label in labels for part in label), default=0)
    sides = (_TICKS_WIDTH, letters * _LETTER + 4)
    return Panel(title, _svg(height + 18, title, parts), below, letters, sides)


def _stretch(
    line: Line,
    place: Callable[[Mark], tuple[float, float]],
    level: Callable[[float], float],
) -> Iterator[str]:
    """Yield the parts of a line: from figure to figure, their ranges, and the figures."""
    kind = "dash" if line.dashed else "solid"
    for one, other in zip(line.marks, line.marks[1:], strict=False):
        yield _stroke(*place(one), *place(other), kind)
    for mark in line.marks:
        x, y = place(mark)
        if mark.high > mark.low:
            yield _stroke(x, level(mark.low), x, level(mark.high), "range")
        if mark.tip:
            yield _circle(x, y, mark.tip)


def _named(names: Mapping[float, str]) -> set[float]:
    """Return the places whose names are written, as on a narrow page: the last one above all."""
    first, last = min(names), max(names)
    scale = _NARROW * (_RIGHT - _LEFT) / 100 / (last - first or 1.0)
    chosen: set[float] = set()
    edge = math.inf
    for at in sorted(names, reverse=True):
        half = len(names[at]) * _LETTER / 2
        x = (at - first) * scale
        if names[at] and x + half < edge:
            chosen.add(at)
            edge = x - half - _LETTER
    return chosen


def _apart(ends: Sequence[float], counts: Sequence[int], height: float) -> list[float]:
    """Return where labels of so many lines of text go: near their ends, and none over another."""
    order = sorted((n for n in range(len(ends)) if counts[n]), key=lambda n: ends[n])
    places = list(ends)
    top = 0.0
    for number in order:
        half = counts[number] * _LINE / 2
        places[number] = max(ends[number], top + half)
        top = places[number] + half
    bottom = height
    # Labels that do not fit below go up again.
    for number in reversed(order):
        half = counts[number] * _LINE / 2
        places[number] = min(places[number], bottom - half)
        bottom = places[number] - half
    return places


def dots(title: str, groups: Sequence[tuple[str, Sequence[Dot]]], below: str) -> Panel:
    """Return a panel with a line for each figure, in groups that have a heading."""
    low, high = _range([dot.mark for _, group in groups for dot in group])
    names = {dot: textwrap.wrap(dot.label, LABEL_LETTERS) for _, each in groups for dot in each}
    letters = max(len(part) for name in names.values() for part in name)
    left = math.ceil(letters * _LETTER + 8)
    parts = []
    y = float(_EDGE)
    for heading, group in groups:
        for part in textwrap.wrap(heading, _HEADING_LETTERS):
            parts.append(_text(0, y + 12, part, -left, kind="group"))
            y += _LINE
        y += 5
        for dot in group:
            name = names[dot]
            middle = y + _LINE * len(name) / 2
            own = [_text(0, y + 11 + _LINE * n, part, -left) for n, part in enumerate(name)]
            x = _percent(_part(dot.mark.value, low, high))
            if dot.mark.high > dot.mark.low:
                ends = (_percent(_part(each, low, high)) for each in (dot.mark.low, dot.mark.high))
                least, most = ends
                own.append(_stroke(least, middle, most, middle, "range"))
            own.append(_circle(x, middle, dot.mark.tip))
            parts.append(_group(dot.colour, own))
            parts.append(_text(100, middle + 4, dot.text, 4, kind="tick"))
            y += _LINE * len(name) + 4
        y += 4
    behind = []
    text = max(len(dot.text) for _, group in groups for dot in group)
    right = text * _LETTER + 6
    for tick in _few(ticks(low, high), low, high, min(_NARROW, _NARROW_PANEL - left - right)):
        x = _percent(_part(tick, low, high))
        behind.append(_stroke(x, 0, x, y, "one" if tick == 1 else "grid"))
        behind.append(_text(x, y + 14, f"{_short(tick)}x", 0, "middle", "tick"))
    svg = _svg(y + 18, title, [*behind, *parts])
    return Panel(title, svg, below, letters + text, (left, right))


def _few(found: Sequence[float], low: float, high: float, room: float) -> list[float]:
    """Return no more ticks than there is room for, in pixels; 1.0 is among them."""
    one = found.index(1.0) if 1.0 in found else 0
    few: list[float] = []
    for every in range(1, len(found) + 1):
        few = [tick for number, tick in enumerate(found) if (number - one) % every == 0]
        if len(few) <= _MOST_DOT_TICKS and _fit(few, low, high, room):
            break
    return few


def _fit(few: Sequence[float], low: float, high: float, room: float) -> bool:
    """Whether the names of ticks stand apart in so many pixels."""
    room *= (_RIGHT - _LEFT) / 100
    for one, other in itertools.pairwise(few):
        apart = room * (_part(other, low, high) - _part(one, low, high))
        # Each is written around its tick, with an x behind it.
        if apart < _LETTER * (len(_short(one)) + len(_short(other)) + 2) / 2 + _GAP:
            return False
    return True
