# SPDX-License-Identifier: GPL-2.0-only
"""The `move` verb: moves pages of processes between NUMA nodes of the running kernel."""

from pagehaul.move.verb import add_arguments, run

__all__ = ["add_arguments", "run"]
