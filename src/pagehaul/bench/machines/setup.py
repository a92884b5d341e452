# SPDX-License-Identifier: GPL-2.0-only
"""Sets up what the benchmark runs on: kernels, programs, guests, or this machine."""

from collections.abc import Sequence
from pathlib import Path

from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.guests import Guests
from pagehaul.bench.machines.real import Host
from pagehaul.bench.row import PARTS
from pagehaul.guest import cprogs, kvm
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.kernel.bases import Base
from pagehaul.kernel.built import Kernel
from pagehaul.paths import REPO

# The kernels of virtual time, under the names of those that they are small ones of.
_SMALL = {name: f"bench-{name}" for name in ("vanilla", "pagehaul", *PARTS)}


def guests(
    wanted: Sequence[Experiment], base: Base | None, *, quick: bool, large: bool = False
) -> Guests:
    """Return guests of the kernels for a base, with all that some experiments need.

    The kernels are small ones for virtual time. They are those of the tests if large, where an
    experiment needs modules or a variant, and on KVM, where guests share the host's files.
    """
    _require(wanted)
    more = [name for experiment in wanted for name in experiment.kernels]
    kinds = [experiment.machine for experiment in wanted]
    names = dict.fromkeys(("vanilla", "pagehaul", *more))
    kernels: dict[str, Kernel] = {}
    if not large and _SMALL.keys() >= names.keys() and not any(kind.wrap for kind in kinds):
        kernels = {"vanilla": build.build(_SMALL["vanilla"], base)}
        # Of parts of the series there are only small ones.
        if kvm.kvm_works(kernels["vanilla"].image) and not names.keys() & set(PARTS):
            kernels = {}
    small = bool(kernels)
    for name in names:
        if name not in kernels:
            kernels[name] = build.build(_SMALL[name] if small else name, base)
    program = programs()
    for experiment in wanted:
        if experiment.prepare is not None:
            experiment.prepare(kernels["pagehaul"], quick)
    return Guests(program, kernels)


def here(wanted: Sequence[Experiment]) -> Host:
    """Return this machine, with all that some experiments need."""
    _require(wanted)
    return Host(programs())


def _require(wanted: Sequence[Experiment]) -> None:
    tools.require(*(name for experiment in wanted for name in experiment.packages))


def programs() -> Path:
    """Compile the programs of the benchmark, and return where movebench is; others are beside."""
    return cprogs.build_static(REPO / "bench") / "movebench"
