# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the repository, and the cache outside it."""

import json
import os
import shutil
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def in_clone() -> bool:
    """Whether REPO is the repository; an installed package has none of its directories."""
    return (REPO / "series/series.toml").is_file()


def cache_dir() -> Path:
    """Directory of sources, trees, built kernels and logs; created when missing.

    `$PAGEHAUL_CACHE`, else `$XDG_CACHE_HOME/pagehaul`, else `~/.cache/pagehaul`.
    """
    own = os.environ.get("PAGEHAUL_CACHE")
    if own:
        path = Path(own)
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        path = (Path(xdg) if xdg else Path.home() / ".cache") / "pagehaul"
    path = path.absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def log_dir() -> Path:
    """Directory of the logs of builds and guests; created when missing."""
    path = cache_dir() / "logs"
    path.mkdir(exist_ok=True)
    return path


def remove_tree(path: Path) -> None:
    """Remove a directory of the cache, read-only ones included, if it is there."""
    if not path.exists():
        return
    for directory, _, _ in os.walk(path):
        os.chmod(directory, 0o700)
    shutil.rmtree(path)


def read_record(path: Path) -> dict[str, object]:
    """Return the object in a JSON file of ours; an empty one if it is missing or damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
