# SPDX-License-Identifier: GPL-2.0-only
"""The experiments of the benchmark, one module each."""

from pagehaul.experiments import (
    busy,
    callers,
    classic,
    first_folio,
    folio_count,
    folio_size,
    hugetlb,
    path_length,
    placement,
    policy,
    reasons,
    stall,
)
from pagehaul.experiments.cell import Cell, Experiment, Shape, Size

# In the order in which they are printed. path-length needs machines of its own and two boots only:
# its table is the first that a user sees.
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        path_length,
        folio_count,
        folio_size,
        classic,
        callers,
        hugetlb,
        policy,
        stall,
        first_folio,
        busy,
        placement,
        reasons,
    )
}

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Shape", "Size"]
