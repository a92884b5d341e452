# SPDX-License-Identifier: GPL-2.0-only
"""What tables say of themselves: titles, what figures were measured on, what they are worth."""

from collections.abc import Sequence

from pagehaul.bench.labels import case_text, column_label, shared_column_of
from pagehaul.bench.part import Part
from pagehaul.bench.row import REPEATABLE, Row

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


def title(part: Part) -> str:
    """Return the title of an experiment's table, with the machine model of its rows."""
    text = f"{part.experiment}: {part.title}" if part.title else part.experiment
    models = dict.fromkeys(row.model for row in part.rows if row.model is not None)
    return f"{text} (model {', '.join(models)})" if models else text


def accelerator(part: Part) -> str:
    """Return what the experiment ran on: "tcg", "kvm", or "none" for a real machine."""
    machine = part.environment.get("machines", {}).get(part.kind, {})
    return str(machine.get("accelerator", "unknown"))


def emulated(part: Part) -> bool:
    """Whether no hardware ran the code: in virtual time, or against the host's clock."""
    clocks = {row.clock for row in part.rows}
    return clocks != {"host"} or accelerator(part) == "tcg"


def real(part: Part) -> bool:
    """Whether a real machine ran it, and no guest."""
    return not emulated(part) and accelerator(part) == "none"


def ran_on(part: Part) -> str:
    """Return what a caption says of the clock, of the machine, and of speeds on it."""
    rows = part.rows
    clocks = {row.clock for row in rows}
    if clocks == {"virtual"}:
        models = ", ".join(dict.fromkeys(str(row.model) for row in rows))
        text = f"Virtual time, model {models}: figures are the same on every machine; GB/s are "
        return f"{text}those of the model.{_marks(rows)}"
    if clocks == {"instructions"}:
        return COUNTED_CAVEAT
    name = accelerator(part)
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


def channels_caveat(part: Part) -> str:
    """Return what a caption says of channels that are not those of hardware, with a blank."""
    channels = any(row.channels for row in part.rows)
    return f" {SOFTDMA_CAVEAT}" if channels and not real(part) else ""
