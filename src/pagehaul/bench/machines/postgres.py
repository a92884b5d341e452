# SPDX-License-Identifier: GPL-2.0-only
"""A PostgreSQL, as Debian installs it: the files of which a guest makes one."""

from pathlib import Path

# Debian package.
PACKAGE = "postgresql"

# MiB of values. Each has a page of 8 KB of the table, with room for its next version.
MB = 240

# Where the programs of each version are, which are in no PATH, and what they read.
_PROGRAMS = Path("/usr/lib/postgresql")
_DATA = Path("/usr/share/postgresql")

# Of a version.
_OF_PROGRAMS = ("bin/postgres", "bin/initdb", "lib/plpgsql.so", "lib/dict_snowball.so")
_OF_DATA = ("*", "timezonesets/*", "tsearch_data/*", "extension/plpgsql*")


def files() -> list[Path]:
    """Return the files of the version that workbench takes; none where there is none."""
    versions = sorted(path.parent.parent for path in _PROGRAMS.glob("*/bin/postgres"))
    if not versions:
        return []
    newest = versions[-1]
    found = [newest / name for name in _OF_PROGRAMS]
    for pattern in _OF_DATA:
        found += sorted((_DATA / newest.name).glob(pattern))
    return [path for path in found if path.is_file()]
