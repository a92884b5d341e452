# SPDX-License-Identifier: GPL-2.0-only
"""The series as mails to send."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel import series, tree
from pagehaul.kernel.compose import Composed

# Mailing lists of the kernel may refuse larger mails.
MOST_BYTES = 60 * 1024


@dataclass(frozen=True)
class Version:
    """What the subjects say, and what the cover letter says of the kernel and of earlier mails.

    before is the directory of the mails of the version before, base_commit what the patches are on.
    """

    number: int = 1
    rfc: bool = False
    before: Path | None = None
    base_commit: str | None = None

    @property
    def earlier(self) -> list[Path]:
        """The patches of the version before, in their order; PagehaulError if there are none."""
        if self.before is None:
            return []
        found = sorted(self.before.glob("*.patch"))
        found = [path for path in found if not re.match(r"(v\d+-)?0000-", path.name)]
        if not found:
            raise PagehaulError(f"{self.before} has no *.patch: give the mails of the last version")
        return found

    def touched(self) -> set[str]:
        """Return the names of the files that the version before touches."""
        return {str(name) for path in self.earlier for name in tree.patched_files(path)}


def write(
    pristine: Path,
    composed: Composed,
    names: Sequence[str],
    out: Path,
    version: Version = Version(),
) -> list[Path]:
    """Write patches as mails into a directory, with a cover letter, and return the files.

    Raises PagehaulError where they are not in a row, the directory has mails already, or those of
    the version before do not apply.
    """
    order = list(composed.commits)
    first, last = order.index(names[0]), order.index(names[-1])
    if order[first : last + 1] != list(names):
        raise PagehaulError("these parts are not in a row: write them one by one")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("*.patch")):
        raise PagehaulError(f"{out} has patches already: give another directory")
    below = f"{composed.commits[names[0]]}~1"
    cover = _cover(names[-1])
    options = ["--cover-letter", f"--output-directory={out.absolute()}", "--no-signature"]
    if version.number > 1:
        options.append(f"--reroll-count={version.number}")
    if version.rfc:
        options.append("--rfc")
    if version.before is not None:
        options.append(f"--range-diff={_earlier(composed, below, version)}")
    composed.git("format-patch", *options, f"{below}..{composed.commits[names[-1]]}")
    mails = sorted(out.glob("*.patch"))
    recipients = _recipients(pristine, mails[1:])
    text = mails[0].read_text(encoding="utf-8")
    text = text.replace("*** SUBJECT HERE ***", cover[0]).replace("*** BLURB HERE ***", cover[1])
    head, _, body = text.partition("\n\n")
    if version.base_commit is not None:
        body = f"{body.rstrip()}\n\nbase-commit: {version.base_commit}\n"
    mails[0].write_text(f"{head}\n{recipients}\n{body}", encoding="utf-8")
    return mails


def _earlier(composed: Composed, below: str, version: Version) -> str:
    """Commit the mails of the version before on what is below, and return their range."""
    start = composed.git("rev-parse", below).strip()
    composed.git("checkout", "--quiet", "-b", "before", start)
    try:
        composed.git("am", "--quiet", *(path.absolute() for path in version.earlier))
        return f"{start}..{composed.git('rev-parse', 'HEAD').strip()}"
    except PagehaulError as error:
        raise PagehaulError(
            f"the mails in {version.before} do not apply to what these parts are on: "
            f"{str(error).splitlines()[0]}"
        ) from error
    finally:
        subprocess.run(
            ["git", "-C", composed.where, "am", "--abort"], capture_output=True, check=False
        )
        composed.git("checkout", "--quiet", "--force", "series")


def _cover(last: str) -> tuple[str, str]:
    """Return subject and text of the cover letter for mails whose last patch is `last`.

    Its part may have a letter of its own, for when the series is sent only as far as that part.
    """
    pieces = series.load()
    part = next((patch.part for patch in pieces.patches if patch.name == last), "")
    path = pieces.text(f"cover-{part}")
    if not path.exists():
        path = pieces.text("cover")
    try:
        subject, _, text = path.read_text(encoding="utf-8").partition("\n")
    except FileNotFoundError:
        raise PagehaulError(f"{path} is missing: it is the cover letter") from None
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
