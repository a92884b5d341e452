# SPDX-License-Identifier: GPL-2.0-only
"""The experiments of the benchmark."""

from pagehaul.bench.experiment import Experiment
from pagehaul.bench.experiments import (
    busy,
    callers,
    classic,
    compaction_latency,
    dma,
    first_folio,
    folio_count,
    folio_size,
    hugetlb,
    judge,
    non_temporal,
    path_length,
    pcp_compound,
    placement,
    policy,
    reasons,
    scaling,
    stall,
    validation,
)

# In the order in which they are printed. path-length needs machines of its own and two boots only:
# its table is the first that a user sees.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        path_length.EXPERIMENT,
        scaling.EXPERIMENT,
        folio_count.EXPERIMENT,
        folio_size.EXPERIMENT,
        classic.EXPERIMENT,
        callers.EXPERIMENT,
        hugetlb.EXPERIMENT,
        policy.EXPERIMENT,
        stall.EXPERIMENT,
        first_folio.EXPERIMENT,
        busy.EXPERIMENT,
        non_temporal.EXPERIMENT,
        placement.EXPERIMENT,
        reasons.EXPERIMENT,
        compaction_latency.EXPERIMENT,
        pcp_compound.PFT,
        pcp_compound.KERNBENCH,
        dma.FOLIO_SIZE,
        dma.FOLIO_COUNT,
        dma.HYBRID,
        dma.CPU_FREED,
        pcp_compound.PFT_PATH_LENGTH,
        busy.COUNTED_EXPERIMENT,
        validation.EXPERIMENT,
        judge.EXPERIMENT,
    )
}
