# SPDX-License-Identifier: GPL-2.0-only
"""The colours of all pictures: one colour means one thing, in every picture and on every page.

The hue tells the method, the shade how many CPUs, callers or channels it has, and a turned hue that
settings were tried. Text in any of these colours can be read on light and on dark paper.
"""

import colorsys
import math
from functools import cache
from typing import NamedTuple

from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import ALL_CPUS, HALF_OF_CPUS, QUARTER_OF_CPUS, Column

LIGHT_PAPER = "#fdfdfc"
DARK_PAPER = "#15191d"


class Colour(NamedTuple):
    """The same colour for light and for dark paper, each as #rrggbb."""

    light: str
    dark: str

    @property
    def style(self) -> str:
        """Return what an element of the class `hue` needs as its style."""
        return f"--light:{self.light};--dark:{self.dark}"


# Degrees of the colour circle. The unmodified kernel by itself is grey.
_HUES = {
    "callers": 46,
    "batch": 158,
    "threads": 214,
    "parallel": 14,
    "pool": 244,
    "dma": 272,
    "hybrid": 322,
    "faults": 92,
}
_SATURATION = 0.75
_TRIED = 18
_TRIED_OTHERWISE = -16

# Relative luminance by shade, from few CPUs to many: 4.5 times the paper's or more.
_ON_LIGHT = (0.165, 0.115, 0.07, 0.035)
_ON_DARK = (0.24, 0.33, 0.45, 0.6)
_MANY = {ALL_CPUS: 3, HALF_OF_CPUS: 2, QUARTER_OF_CPUS: 1}


def colour(column: Column) -> Colour:
    """Return the colour of a column: the same one whatever stands beside it."""
    if column.method == "serial":
        return _made(0.0, 0.0, 0 if column.kernel == "vanilla" else 2)
    hue = _HUES[column.method] + _turn(dict(column.settings))
    return _made(hue / 360 % 1.0, _SATURATION, _shade(max(column.threads, column.channels)))


def _turn(settings: dict[str, str]) -> int:
    """Return by how many degrees settings turn the hue; those of the kernel's own choice do not."""
    if not settings or settings == AUTOMATIC:
        return 0
    return _TRIED_OTHERWISE if settings.get("placement") == "fill" else _TRIED


def _shade(workers: int) -> int:
    if workers <= 0:
        return _MANY[workers]
    return min(3, math.ceil(math.log2(workers)) // 2)


def _made(hue: float, saturation: float, shade: int) -> Colour:
    found = (_of_luminance(hue, saturation, each[shade]) for each in (_ON_LIGHT, _ON_DARK))
    return Colour(*found)


@cache
def _of_luminance(hue: float, saturation: float, wanted: float) -> str:
    """Return the colour of a hue that is as light as wanted."""
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        if luminance(_hex(hue, middle, saturation)) < wanted:
            low = middle
        else:
            high = middle
    return _hex(hue, high, saturation)


def _hex(hue: float, lightness: float, saturation: float) -> str:
    parts = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


def luminance(text: str) -> float:
    """Return the relative luminance of #rrggbb, from 0 to 1, as WCAG defines it."""
    total = 0.0
    for place, weight in ((1, 0.2126), (3, 0.7152), (5, 0.0722)):
        part = int(text[place : place + 2], 16) / 255
        total += weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    return total


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
