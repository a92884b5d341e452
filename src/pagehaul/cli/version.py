# SPDX-License-Identifier: GPL-2.0-only
"""The version of the tool."""

from importlib import metadata

from pagehaul.errors import PagehaulError


def version() -> str:
    """Return the version of the installed package; PagehaulError where it is not installed."""
    try:
        return metadata.version("pagehaul")
    except metadata.PackageNotFoundError:
        raise PagehaulError("no version: the package is not installed; use ./pagehaul") from None
