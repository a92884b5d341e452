# SPDX-License-Identifier: GPL-2.0-only
"""The series as mails to send."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel.compose import Composed
from pagehaul.kernel.series import SERIES

_COVER = SERIES / "cover.txt"


def write(pristine: Path, composed: Composed, names: Sequence[str], out: Path) -> list[Path]:
    """Write patches as mails into a directory, with a cover letter, and return the files.

    Raises PagehaulError where they are not in a row, or the directory has mails already.
    """
    order = list(composed.commits)
    first, last = order.index(names[0]), order.index(names[-1])
    if order[first : last + 1] != list(names):
        raise PagehaulError("these parts are not in a row: write them one by one")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("*.patch")):
        raise PagehaulError(f"{out} has patches already: give another directory")
    span = f"{composed.commits[names[0]]}~1..{composed.commits[names[-1]]}"
    cover = _cover()
    options = ["--cover-letter", f"--output-directory={out.absolute()}", "--no-signature"]
    composed.git("format-patch", *options, span)
    mails = sorted(out.glob("*.patch"))
    recipients = _recipients(pristine, mails[1:])
    text = mails[0].read_text(encoding="utf-8")
    text = text.replace("*** SUBJECT HERE ***", cover[0]).replace("*** BLURB HERE ***", cover[1])
    head, _, body = text.partition("\n\n")
    mails[0].write_text(f"{head}\n{recipients}\n{body}", encoding="utf-8")
    return mails


def _cover() -> tuple[str, str]:
    """Return subject and text of the cover letter."""
    try:
        subject, _, text = _COVER.read_text(encoding="utf-8").partition("\n")
    except FileNotFoundError:
        raise PagehaulError(f"{_COVER} is missing: it is the cover letter") from None
    return subject, text.strip()


def _recipients(pristine: Path, mails: Iterable[Path]) -> str:
    """Return a header with whom the kernel's own list names for the patches."""
    command = [
        "perl",
        "scripts/get_maintainer.pl",
        "--no-git",
        "--no-git-fallback",
        "--no-rolestats",
        *(str(path.absolute()) for path in mails),
    ]
    done = subprocess.run(command, cwd=pristine, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "@" in line]
    if not found:
        raise PagehaulError(f"get_maintainer.pl names nobody: {done.stderr.strip()}")
    return "".join(f"Cc: {each}\n" for each in found)
