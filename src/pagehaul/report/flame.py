# SPDX-License-Identifier: GPL-2.0-only
"""A picture of call chains by their time: the outermost functions below, what they call above."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

_WIDTH = 1200
_HEIGHT = 17
# Pixels: narrower boxes are not drawn; a name needs so many for each letter.
_NARROWEST = 0.5
_LETTER = 6.2


@dataclass
class _Frame:
    """A function, called by the one below it."""

    name: str
    value: int = 0
    calls: dict[str, "_Frame"] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((frame.depth() for frame in self.calls.values()), default=0)


def _merge(chains: Mapping[tuple[str, ...], int]) -> _Frame:
    root = _Frame("all CPUs")
    for chain, value in chains.items():
        frame = root
        frame.value += value
        for name in chain:
            frame = frame.calls.setdefault(name, _Frame(name))
            frame.value += value
    return root


def picture(chains: Mapping[tuple[str, ...], int]) -> str:
    """Return an SVG of chains, the outermost function first, with their times in ps.

    Its box scrolls where the page is narrower: names of functions keep their size.
    """
    root = _merge(chains)
    levels = root.depth()
    parts: list[str] = []
    _draw(root, 0.0, 0, levels, root.value or 1, parts)
    return (
        '<div class="wide" tabindex="0">'
        f'<svg width="{_WIDTH}" height="{levels * _HEIGHT}" role="img" font-size="11" '
        'font-family="monospace" aria-label="where the time went">\n'
        + "\n".join(parts)
        + "\n</svg></div>"
    )


def _draw(frame: _Frame, x: float, level: int, levels: int, total: int, parts: list[str]) -> None:
    width = frame.value / total * _WIDTH
    if width < _NARROWEST:
        return
    y = (levels - 1 - level) * _HEIGHT
    # The same function has the same colour everywhere, between yellow and red.
    hue = crc32(frame.name.encode()) % 50
    tip = f"{frame.name}: {frame.value / 1e6:,.0f} us, {frame.value / total:.1%}"
    parts.append(
        f'<g><title>{escape(tip)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{_HEIGHT - 1}" fill="hsl({hue},80%,65%)"/>'
    )
    letters = int(width / _LETTER)
    if letters > 2:
        name = frame.name if len(frame.name) <= letters else frame.name[: letters - 1] + "…"
        parts.append(f'<text x="{x + 2:.1f}" y="{y + 12}" fill="#111">{escape(name)}</text>')
    parts.append("</g>")
    for call in sorted(frame.calls.values(), key=lambda each: each.name):
        _draw(call, x, level + 1, levels, total, parts)
        x += call.value / total * _WIDTH
