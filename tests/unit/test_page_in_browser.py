# SPDX-License-Identifier: GPL-2.0-only
"""The page in a real browser: at three widths, on light and on dark, folded and open.

Without a browser these tests are skipped; the Debian package is `chromium`.
"""

import html
import json
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_plots import varied
from test_report import results
from test_virtual_tables import everything, scaled
from test_virtual_tables import ran as made_of
from whole_run import whole_run

from pagehaul.bench.row import Results
from pagehaul.report import flame, screens
from pagehaul.report.page import page as page_of
from pagehaul.report.screens import BROWSERS, browse, find_browser

WIDTHS = (1400, 900, 420)
PROBE = Path(__file__).with_name("page_probe.js")

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason=f"no browser: none of {', '.join(BROWSERS)}"
)


def looked_at(page: str, directory: Path, *options: str) -> list[dict[str, Any]]:
    """Return what the probe saw of a page in frames of all widths."""
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width in WIDTHS
    )
    path = directory / "frames.html"
    script = PROBE.read_text(encoding="utf-8")
    path.write_text(
        f'<!doctype html><meta charset="utf-8">{frames}<pre id="found"></pre>'
        f"<script>{script}</script>",
        encoding="utf-8",
    )
    done = browse(path, "--dump-dom", *options)
    text = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert text is not None and text[1], done.stderr
    found = json.loads(html.unescape(text[1]))
    assert found["errors"] == []
    assert "CONSOLE" not in done.stderr, done.stderr
    shutil.rmtree(directory / "profile", ignore_errors=True)
    looks: list[dict[str, Any]] = found["looks"]
    assert [look["width"] for look in looks] == [width for width in WIDTHS for _ in range(2)]
    return looks


def profiled() -> Results:
    """A run with the picture of a profile, which is wider than most pages."""
    drawn = flame.picture({("a_function", "another_function"): 3, ("a_function",): 5})
    made = results()
    profiles = [{"title": "a profile", "html": drawn}]
    return replace(made, environment={**made.environment, "profiles": profiles})


RUNS = {
    "host": lambda: [results()],
    "virtual": lambda: [everything()],
    "varied, two runs": lambda: [made_of(*varied()), profiled()],
    "whole, host": lambda: [whole_run(model=None, quick=False)],
    "whole, virtual": lambda: [whole_run(model="plain", quick=True)],
}


@pytest.fixture(scope="module", params=RUNS)
def looks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    runs: list[Results] = RUNS[request.param]()
    return looked_at(page_of(runs), tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("what", ["overflows", "unreachable", "collisions", "unlabelled", "faint"])
def test_nothing_is_cut_off_or_cannot_be_read(looks: list[dict[str, Any]], what: str) -> None:
    found = {(look["width"], look["open"]): look[what] for look in looks}
    assert not {key: each for key, each in found.items() if each}


def test_letters_of_pictures_keep_their_size(looks: list[dict[str, Any]]) -> None:
    for look in looks:
        assert look["letters"]["count"] > 5
        assert look["letters"]["least"] >= 11


def test_every_width_has_the_same_labels(looks: list[dict[str, Any]]) -> None:
    opened = [look["labels"] for look in looks if look["open"]]
    assert opened[0] == opened[1] == opened[2]
    assert "1x" in opened[0]


def test_the_folded_page_is_short(looks: list[dict[str, Any]]) -> None:
    assert (
        max(look["height"] for look in looks if look["width"] == 1400 and not look["open"]) < 6000
    )


def test_dark_paper_is_dark_and_can_be_read(tmp_path: Path) -> None:
    page = page_of([made_of(*scaled())])
    dark = looked_at(page, tmp_path, screens.scheme("dark"))
    light = looked_at(page, tmp_path, screens.scheme("light"))
    assert {look["paper"] for look in dark} == {"rgb(21, 25, 29)"}
    assert {look["paper"] for look in light} == {"rgb(253, 253, 252)"}
    assert all(look["faint"] == [] for look in [*dark, *light])


def test_the_page_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_of([everything()]), encoding="utf-8")
    browse(path, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    # Paper shows the parts that are folded on a screen.
    assert len(re.findall(rb"/Type /Page\b", printed)) >= 4


def test_screens_of_both_colour_schemes(tmp_path: Path) -> None:
    taken = screens.take(page_of([everything()]), tmp_path)
    assert {each.name for each in taken} == {"report-dark.png", "report-light.png"}
    found = [each.read_bytes() for each in taken]
    assert found[0] != found[1]
    for each in found:
        # The first chunk of a PNG: its width and height.
        assert struct.unpack(">8s4x4sII", each[:24]) == (
            b"\x89PNG\r\n\x1a\n",
            b"IHDR",
            screens.WIDTH,
            screens.HEIGHT,
        )
