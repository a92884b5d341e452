# SPDX-License-Identifier: GPL-2.0-only
"""What tables say of themselves: titles, what figures were measured on, what they are worth."""

from collections.abc import Sequence

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.labels import case_text, column_label, shared_column_of
from pagehaul.bench.results import REPEATABLE, Results, Row

TCG_CAVEAT = (
    "GB/s under TCG, an emulator, mean nothing by themselves: only the ratios, measured "
    "alternately in one run, do."
)

COUNTED_CAVEAT = (
    "This guest has one CPU, and its clock counts instructions, one a nanosecond: neither what "
    "else runs on the host is in these figures, nor what memory and caches cost."
)

# Where the CPUs are those of a hypervisor or an emulator.
DIES_CAVEAT = (
    "The CPUs of a guest have no caches and no memory path of their own: whether spreading wins is "
    "to be seen on hardware, by --host."
)

CACHES_CAVEAT = (
    "Emulated CPUs have no caches: whether copies past the caches win is to be seen on hardware, "
    "by --host or in a guest of KVM."
)

SOFTDMA_CAVEAT = (
    "Channels are threads of softdma on CPUs of their own, held to a speed each: how they scale, "
    "fall back and free the CPU is to be seen, not the speed of hardware. batch_pages: base pages "
    "in a batch."
)

# Stands beside figures that their repetitions do not agree on.
MARK = "†"


def title(results: Results, experiment: str) -> str:
    """Return the title of an experiment's table, with the machine model of its rows."""
    known = EXPERIMENTS.get(experiment)
    text = f"{experiment}: {known.title}" if known else experiment
    models = dict.fromkeys(row.model for row in results.of(experiment) if row.model is not None)
    return f"{text} (model {', '.join(models)})" if models else text


def accelerator(results: Results, experiment: str) -> str:
    """Return what the experiment ran on: "tcg", "kvm", or "none" for a real machine."""
    kind = EXPERIMENTS[experiment].machine if experiment in EXPERIMENTS else "parallel"
    machine = results.environment.get("machines", {}).get(kind, {})
    return str(machine.get("accelerator", "unknown"))


def emulated(results: Results, experiment: str) -> bool:
    """Whether no hardware ran the code: in virtual time, or against the host's clock."""
    clocks = {row.clock for row in results.of(experiment)}
    return clocks != {"host"} or accelerator(results, experiment) == "tcg"


def real(results: Results, experiment: str) -> bool:
    """Whether a real machine ran it, and no guest."""
    return not emulated(results, experiment) and accelerator(results, experiment) == "none"


def ran_on(results: Results, experiment: str) -> str:
    """Return what a caption says of the clock, of the machine, and of speeds on it."""
    rows = results.of(experiment)
    clocks = {row.clock for row in rows}
    if clocks == {"virtual"}:
        models = ", ".join(dict.fromkeys(str(row.model) for row in rows))
        text = f"Virtual time, model {models}: figures are the same on every machine; GB/s are "
        return f"{text}those of the model.{_marks(rows)}"
    if clocks == {"instructions"}:
        return COUNTED_CAVEAT
    name = accelerator(results, experiment)
    return f"Accelerator: {name}." + (f" {TCG_CAVEAT}" if name == "tcg" else "")


def _marks(rows: Sequence[Row]) -> str:
    """Return the footnote of marked figures: how far apart the repetitions of each are."""
    told = [
        f"{case_text(row)}, {column_label(shared_column_of(row))} "
        f"{min(row.gbps) / row.median_gbps - 1:+.0%} to {max(row.gbps) / row.median_gbps - 1:+.0%}"
        for row in rows
        if not row.repeats
    ]
    if not told:
        return ""
    return f" {MARK}: repetitions differ by more than {REPEATABLE:.0%}: {'; '.join(told)}."


def channels_caveat(results: Results, experiment: str) -> str:
    """Return what a caption says of channels that are not those of hardware, with a blank."""
    channels = any(row.channels for row in results.of(experiment))
    return f" {SOFTDMA_CAVEAT}" if channels and not real(results, experiment) else ""
