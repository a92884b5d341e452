# SPDX-License-Identifier: GPL-2.0-only
"""Screens of the report's page, by a browser without a window, on light and on dark.

`python -m pagehaul.report.screens RESULTS.json...` writes those of docs/pictures/.
"""

import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from pagehaul.bench.store import load
from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.paths import REPO
from pagehaul.report.page import page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# The browser's numbers of the two colour schemes.
SCHEMES = {"dark": 0, "light": 1}

# Pixels: the beginning of the page.
WIDTH, HEIGHT = 1000, 900

_TIMEOUT_S = 300.0

# Bytes of a PNG's signature and of its first chunk, which says how large it is.
_PNG_HEADER = 8 + 25


def find_browser() -> str | None:
    """Return the path of a browser; None when there is none of BROWSERS."""
    return next(filter(None, map(tools.find_command, BROWSERS)), None)


def scheme(name: str) -> str:
    """Return the browser's option for a colour scheme, one of SCHEMES."""
    return f"--blink-settings=preferredColorScheme={SCHEMES[name]}"


def browse(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page without a window, and return what the browser printed.

    The browser keeps its files in the directory of the page. Raises PagehaulError without one.
    """
    browser = find_browser()
    if browser is None:
        raise PagehaulError(f"no browser: none of {', '.join(BROWSERS)}; apt-get install chromium")
    command = [browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [f"--user-data-dir={path.parent / 'profile'}", "--enable-logging=stderr"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    command += [*options, path.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)


def _with_licence(png: bytes) -> bytes:
    """Put the licence into a PNG, as a comment behind its header."""
    text = b"tEXtComment\0SPDX-License-Identifier: GPL-2.0-only"
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    return png[:_PNG_HEADER] + chunk + png[_PNG_HEADER:]


def take(text: str, directory: Path) -> list[Path]:
    """Write the screens of a page, given as HTML, to `directory`; return their paths."""
    written = []
    with tempfile.TemporaryDirectory(prefix="pagehaul-screens-") as work:
        path = Path(work) / "page.html"
        path.write_text(text, encoding="utf-8")
        for name in SCHEMES:
            screen = directory / f"report-{name}.png"
            size = f"--window-size={WIDTH},{HEIGHT}"
            browse(path, f"--screenshot={screen}", size, "--hide-scrollbars", scheme(name))
            screen.write_bytes(_with_licence(screen.read_bytes()))
            written.append(screen)
    return written


def main(argv: Sequence[str]) -> None:
    """Write the screens of the page of some files of results."""
    for path in take(page([load(Path(name)) for name in argv]), REPO / "docs/pictures"):
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
