# SPDX-License-Identifier: GPL-2.0-only
"""The picture of a server that stutters while its memory moves, on both kernels.

`python -m pagehaul.report.stutter RESULTS.json > docs/pictures/drain.svg` draws it of a run with
`workload-redis-drain`: the longest latency of each 2 ms, over time.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from pagehaul.bench.measures.serving import MEASURE, Serving
from pagehaul.bench.row import Results, Row
from pagehaul.bench.store import load
from pagehaul.errors import PagehaulError

_EXPERIMENT, _LOOP = "workload-redis-drain", "closed loop"
_WAY = "migratepages"

_TITLE = "Redis while 512 MB of its memory move to another node"
_HEADING = f"{_TITLE}: longest latency of each 2 ms"
_FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
_WIDTH, _HEIGHT = 880, 372
_LEFT, _RIGHT = 64, 852
_FIRST, _BETWEEN, _TALL = 62, 154, 104  # pixels: the top of the first lane, and its height
_FROM_MS, _TO_MS = -40.0, 500.0
_LEAST_MS, _MOST_MS = 1 / 64, 4.0
_TICKS_MS = {0.0625: "0.06 ms", 0.25: "0.25", 1.0: "1", 4.0: "4"}

_STYLE = """\
  .page { fill: #ffffff; stroke: #d0d7de; }
  text { fill: #1f2328; }
  .dim { fill: #59636e; font-size: 13px; }
  .head { font-weight: 600; font-size: 15px; }
  .line { stroke: #d0d7de; }
  .move { fill: #ddf4ff; }
  .plain { fill: #bc4c00; }
  .ours { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .dim { fill: #9198a1; }
    .line { stroke: #3d444d; }
    .move { fill: #0c2d6b; }
    .plain { fill: #f0883e; }
    .ours { fill: #3fb950; }
  }"""


def picture(results: Results) -> str:
    """Return the picture as SVG; PagehaulError where the run has not what it shows."""
    vanilla, ours = _row(results, "vanilla", "serial"), _row(results, "pagehaul", "parallel")
    faster = ours.median_gbps / vanilla.median_gbps
    lanes = [
        *_lane(0, vanilla, "plain", f"unmodified kernel: {_ms(vanilla):.0f} ms"),
        *_lane(1, ours, "ours", f"Pagehaul: {_ms(ours):.0f} ms, {faster:.1f} times as fast"),
    ]
    text = (
        f"{_TITLE}. {_WAY} takes {_ms(vanilla):.0f} ms on the unmodified kernel, and "
        f"{_ms(ours):.0f} ms on Pagehaul's. For as long, some requests wait."
    )
    body = [
        f'<text class="head" x="20" y="28">{escape(_HEADING)}</text>',
        *lanes,
        f'<text class="dim" x="{_RIGHT}" y="{_HEIGHT - 14}" text-anchor="end">'
        f"ms; 16 CPUs, virtual time, model {escape(str(ours.model))}, by {_WAY}</text>",
    ]
    return framed("pagehaul.report.stutter", _TITLE, text, _HEIGHT, body)


def framed(module: str, title: str, text: str, height: int, body: Iterable[str]) -> str:
    """Return an SVG picture of `height` pixels that describes itself, for light and dark paper.

    body: elements, whose classes are those of the style above. module: what draws the picture.
    """
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<!-- SPDX-License-Identifier: GPL-2.0-only -->",
            f"<!-- Made by `python -m {module}`. -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" role="img" aria-labelledby="title desc"',
            f'     font-family="{_FONT}" font-size="14">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(text)}</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" '
            'rx="6"/>',
            *body,
            "</svg>\n",
        )
    )


def _row(results: Results, kernel: str, method: str) -> Row:
    for row in results.rows:
        if (row.experiment, row.condition, row.kernel, row.method) == (
            _EXPERIMENT,
            _LOOP,
            kernel,
            method,
        ) and (kernel == "vanilla" or row.settings.get("by") == _WAY):
            return row
    raise PagehaulError(f"these results have no {_EXPERIMENT}, {_LOOP}, by {_WAY} on {kernel}")


def _ms(row: Row) -> float:
    return row.bytes / row.median_gbps / 1e6


def _x(ms: float) -> float:
    return _LEFT + (ms - _FROM_MS) / (_TO_MS - _FROM_MS) * (_RIGHT - _LEFT)


def _height(ms: float) -> float:
    """Return how tall a latency is; the axis is logarithmic."""
    part = math.log(ms / _LEAST_MS) / math.log(_MOST_MS / _LEAST_MS)
    return _TALL * min(max(part, 0.01), 1.0)


def _lane(number: int, row: Row, kind: str, name: str) -> Iterator[str]:
    top = _FIRST + number * _BETWEEN
    bottom = top + _TALL
    start, end = _x(0), _x(_ms(row))
    yield f'<text x="{start:.1f}" y="{top - 8}">{escape(name)}</text>'
    yield (
        f'<rect class="move" x="{start:.1f}" y="{top}" width="{end - start:.1f}" height="{_TALL}"/>'
    )
    for ms, label in _TICKS_MS.items():
        y = bottom - _height(ms)
        yield f'<path class="line" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield f'<text class="dim" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<path class="{kind}" d="{_outline(_serving(row), bottom)}"/>'
    for ms in range(0, int(_TO_MS) + 1, 100):
        yield (
            f'<text class="dim" x="{_x(ms):.1f}" y="{bottom + 18}" text-anchor="middle">{ms}</text>'
        )


def _serving(row: Row) -> Serving:
    serving = MEASURE.of(row)
    if serving is None:
        raise PagehaulError(f"these results of {_EXPERIMENT} do not tell what clients saw")
    return serving


def _outline(serving: Serving, bottom: float) -> str:
    """Return a path around all slots, each a bar as wide as the time to the next one."""
    slots = list(zip(serving.at_us, serving.slot_max_ns, strict=True))
    width = (_x(2.0) - _x(0.0)) * 0.9
    return "".join(
        f"M{_x(at / 1e3) - width / 2:.1f} {bottom}v{-_height(ns / 1e6):.1f}h{width:.1f}"
        f"v{_height(ns / 1e6):.1f}z"
        for at, ns in slots
        if _FROM_MS <= at / 1e3 <= _TO_MS
    )


def main(argv: Sequence[str]) -> None:
    """Print the picture of the file of results that is named."""
    print(picture(load(Path(argv[0]))), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
