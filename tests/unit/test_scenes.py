# SPDX-License-Identifier: GPL-2.0-only
"""The figures of workloads: pictures and tables show those of docs/results/workloads.csv."""

import re
import xml.etree.ElementTree as ET

import pytest

from pagehaul.paths import REPO
from pagehaul.report import scenes

WORKLOADS = (REPO / "docs/workloads.md").read_text(encoding="utf-8")
ROWS = scenes.read()


@pytest.mark.parametrize("name", scenes.PICTURES)
def test_pictures_are_up_to_date(name: str) -> None:
    drawn = (REPO / f"docs/pictures/workload-{name}.svg").read_text(encoding="utf-8")
    assert drawn == scenes.picture(name, ROWS), "run `python -m pagehaul.report.scenes`"
    assert f"(pictures/workload-{name}.svg)" in WORKLOADS


def row(kernel: str, ms: int, while_it_lasts: str, loop: str = "closed") -> scenes.Row:
    return {
        "scene": "memcached-drain",
        "model": "plain",
        "loop": loop,
        "kernel": kernel,
        "way": "by <hand>",
        "takes_ms": str(ms),
        "per_second_while": while_it_lasts,
        "per_second_500ms": "2000",
    }


def bars(*rows: scenes.Row) -> list[tuple[str | None, str | None]]:
    """Return class and width of all bars; the first rectangle is the page."""
    root = ET.fromstring(scenes.picture("memcached", rows).encode())
    found = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    return [(each.get("class"), each.get("width")) for each in found[1:]]


def test_bars_are_as_long_as_the_figures_say() -> None:
    rows = (
        row("unmodified", 400, "500"),
        row("Pagehaul", 40, "1000"),
        row("Pagehaul", 9, "", "open"),
    )
    assert bars(*rows) == [
        ("plain", "200.0"),
        ("plain", "100.0"),
        ("ours", "20.0"),
        ("ours", "200.0"),
    ]


def test_rates_of_the_500_ms_stand_in_where_others_are_missing() -> None:
    rows = (row("unmodified", 400, "500"), row("Pagehaul off", 40, ""))
    assert [width for _, width in bars(*rows)] == ["200.0", "200.0", "20.0", "200.0"]
    assert "requests a second in the 500 ms" in scenes.picture("memcached", rows)


def test_tables_have_no_other_figures() -> None:
    """Rows name the kernel and the way to move memory in words; what they measured is in digits."""
    sections = re.split(r"^## ", WORKLOADS, flags=re.M)[1:]
    checked = 0
    for section in sections:
        named = re.findall(r"workload-([a-z]+(?:-[a-z]+)*)", section)
        known = {
            float(value)
            for each in ROWS
            if each["scene"] in named
            for value in each.values()
            if re.fullmatch(r"[\d.]+", value)
        }
        for cell in re.findall(r"(?<=\|) *([\d,.]+) *(?=\|)", section):
            assert float(cell.replace(",", "")) in known, (cell, section[:60])
            checked += 1
    assert checked > 300
