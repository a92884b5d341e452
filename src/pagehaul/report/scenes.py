# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of docs/workloads.md: how long the memory of a program takes to move, in bars.

`python -m pagehaul.report.scenes` draws docs/pictures/workload-*.svg from the closed loops in
docs/results/workloads.csv.
"""

import csv
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from pagehaul.paths import REPO
from pagehaul.report.stutter import framed

FIGURES = REPO / "docs/results/workloads.csv"

# By the name of a picture: its title, what the program serves, and the scenes that it shows.
PICTURES = {
    "memcached": ("memcached is drained", "requests", ("memcached-drain",)),
    "postgres": ("PostgreSQL is drained", "requests", ("postgres-drain",)),
    "postgres-huge": ("PostgreSQL in huge pages is drained", "requests", ("postgres-huge",)),
    "threads": ("A program of eight threads is drained", "steps", ("threads-drain",)),
    "node": ("The node of Redis is taken away", "requests", ("redis-cpuset", "redis-offlining")),
    "compaction": ("The node of Redis is compacted", "requests", ("redis-compaction",)),
    "tiers": ("Memory changes its tier", "steps", ("threads-demotion", "threads-promotion")),
    "gups": ("A table is updated", "steps", ("gups",)),
    "bfs": ("A graph is searched", "steps", ("bfs",)),
    "hotset": ("A hot set takes the place of cold memory", "steps", ("hotset",)),
    "two-programs": ("Redis beside a promoted program", "requests", ("two-programs",)),
    "neighbour": ("A neighbour of Redis is drained", "requests", ("redis-neighbour",)),
}

_CLASSES = {"unmodified": "plain", "Pagehaul off": "dim", "Pagehaul": "ours"}
_LATENCY = ("p999_ms", "99.9%, ms", "latency of 99.9%")
_PANELS, _WIDE = (300, 600), 200  # pixels: where the bars begin, and the longest one
_TOP, _TALL = 64, 22

Row = dict[str, str]


def read(path: Path = FIGURES) -> list[Row]:
    """Return the rows of a file of figures, by the names of its columns; the first is a comment."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()[1:]))


def picture(name: str, rows: Sequence[Row]) -> str:
    """Return a picture of PICTURES as SVG. All bars of a panel have one scale, from 0 on."""
    title, served, scenes = PICTURES[name]
    of_scenes = [row for row in rows if row["scene"] in scenes and row["loop"] == "closed"]
    shown = [row for row in of_scenes if row["model"] == of_scenes[0]["model"]]
    while_it_lasts = all(row["per_second_while"] for row in shown)
    rate = "per_second_while" if while_it_lasts else "per_second_500ms"
    period = "while it lasts" if while_it_lasts else "in the 500 ms"
    # Where the kernel moves what it sees fit, nothing takes a time of its own.
    timed = all(row["takes_ms"] for row in shown)
    first, head, what = ("takes_ms", "ms", "time") if timed else _LATENCY
    title = f"{title}: 16 CPUs, virtual time, model {shown[0]['model']}"
    text = f"{title}. Bars of the {what} in ms, and of {served} a second {period}."
    body = [f'<text class="head" x="20" y="28">{escape(title)}</text>']
    for x, each in zip(_PANELS, (head, f"{served} a second {period}"), strict=True):
        body.append(f'<text class="dim" x="{x}" y="{_TOP - 8}">{each}</text>')
    for number, row in enumerate(shown):
        scene = row["scene"].rpartition("-")[2] if len(scenes) > 1 else ""
        label = ", ".join(filter(None, (scene, row["kernel"], row["way"])))
        y = _TOP + number * _TALL
        body.append(f'<text x="20" y="{y + 14}" font-size="13">{escape(label)}</text>')
        for x, column in zip(_PANELS, (first, rate), strict=True):
            largest = max(float(each[column]) for each in shown)
            body += _bar(x, y, float(row[column]), largest, _CLASSES[row["kernel"]])
    return framed("pagehaul.report.scenes", title, text, _TOP + len(shown) * _TALL + 12, body)


def _bar(x: int, y: int, value: float, largest: float, kind: str) -> Iterator[str]:
    width = value / largest * _WIDE
    yield f'<rect class="{kind}" x="{x}" y="{y + 2}" width="{width:.1f}" height="{_TALL - 6}"/>'
    yield f'<text class="dim" x="{x + width + 6:.1f}" y="{y + 15}">{_figure(value)}</text>'


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def main() -> None:
    """Draw all pictures."""
    for name in PICTURES:
        path = REPO / f"docs/pictures/workload-{name}.svg"
        path.write_text(picture(name, read()), encoding="utf-8")


if __name__ == "__main__":
    main()
