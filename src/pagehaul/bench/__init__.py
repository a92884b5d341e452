# SPDX-License-Identifier: GPL-2.0-only
"""The `bench` verb: measures Pagehaul beside the unmodified kernel."""

from pagehaul.bench.measure import measure
from pagehaul.bench.plan import Effort, effort_of, turns
from pagehaul.bench.verb import add_arguments, run

__all__ = ["Effort", "add_arguments", "effort_of", "measure", "run", "turns"]
