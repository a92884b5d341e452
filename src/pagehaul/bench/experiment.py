# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pagehaul.bench.cell import Cell, Size
from pagehaul.bench.labels import Table
from pagehaul.bench.machines.kinds import Kind
from pagehaul.bench.row import Row
from pagehaul.bench.view import View
from pagehaul.kernel.built import Kernel

# CPUs of the machines of virtual time.
CPUS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Experiment:
    """A published table: its cells, and the machine it needs.

    machine is the kind of machine that it needs.
    In virtual time it is measured on machines of so many CPUs each, in a quick run of quick_cpus,
    and on those of the named machine models, where it does not matter which the run is for. One
    that is about_caches is left out then: none are modelled.
    place is where it stands among the others: they are printed from the lowest place to the
    highest.
    packages are those of Debian whose programs it runs. One that is guest_only does what no
    machine should suffer that is used for something else. One that is on_request is measured only
    when it is named. kernels are those that it needs besides vanilla's and Pagehaul's. prepare is
    called, with Pagehaul's kernel and whether the run is quick, before any guest is booted.
    view is how it is told, None for by what was seen in it. published makes the table of published
    figures beside its own; published_ratios are drawn in its picture: ratios to the published
    vanilla kernel by (folios, threads), for a size of folios in KiB. about_losses tells whether it
    answers where Pagehaul is slower.
    """

    name: str
    title: str
    machine: Kind
    cells: Callable[[Size], tuple[Cell, ...]]
    place: int = 0
    packages: tuple[str, ...] = ()
    guest_only: bool = False
    on_request: bool = False
    kernels: tuple[str, ...] = ()
    cpus: tuple[int, ...] = CPUS
    quick_cpus: tuple[int, ...] = CPUS
    models: tuple[str, ...] = ()
    about_caches: bool = False
    prepare: Callable[[Kernel, bool], None] | None = None
    view: View | None = None
    published: Callable[[Sequence[Row]], Table] | None = None
    published_ratios: Callable[[int], Mapping[tuple[int, int], float]] | None = None
    about_losses: bool = False

    def machine_sizes(self, quick: bool) -> tuple[int, ...]:
        """Numbers of CPUs of the machines that it is measured on in virtual time."""
        return self.quick_cpus if quick else self.cpus
