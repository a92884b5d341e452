# SPDX-License-Identifier: GPL-2.0-only
"""Results of all cells of all experiments, with figures made up from the names of the cells."""

from itertools import product
from random import Random

from rows import seen

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import BASE_PAGE, Cell, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.measures.reads import Reads
from pagehaul.bench.measures.remap import Remap
from pagehaul.bench.measures.serving import Phase, Serving
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import Integrity, Results, Row, compare


def whole_run(*, model: str | None, quick: bool) -> Results:
    """Return a run of everything: in virtual time with a model, by the host's clock without."""
    rows = []
    for experiment in EXPERIMENTS.values():
        machines = experiment.machine_sizes(quick) if model else (16,)
        # Experiments about certain machines are measured on models of those only.
        names = (model,) if not experiment.models else experiment.models if model else ()
        for name, cpus in product(names, machines):
            size = Size(quick, cpus, 1024, gigantic_pages=2, model=name)
            rows += [_row(experiment, cell, cpus, name) for cell in experiment.cells(size)]
    environment = {
        "date": "2026-11-25",
        "kernels": {"vanilla": "7.3.0", "pagehaul": "7.3.0-pagehaul"},
        "machines": {"parallel": {"accelerator": "tcg" if model else "kvm", "cpus": 16}},
    }
    return Results(environment, compare(rows), Integrity(10**12, 0, 0))


def _row(experiment: Experiment, cell: Cell, cpus: int, model: str | None) -> Row:
    random = Random(f"{experiment.name} {cell} {cpus}")
    counting = experiment.machine.counting
    middle = 2.0 * cell.threads**0.7 * random.uniform(0.8, 1.4)
    spread = 0.0 if model or counting else random.uniform(0.0, 0.3)
    ns = 1e9 * random.uniform(0.5, 2.0)
    p99 = random.randrange(2_000, 2_000_000)
    return Row(
        experiment=experiment.name,
        kernel=cell.kernel,
        method=cell.method,
        threads=cell.threads,
        folio_kb=cell.shape.folio_kb,
        folios=cell.shape.folios,
        bytes=cell.shape.bytes,
        gbps=(middle * (1 - spread), middle, middle * (1 + spread)),
        median_gbps=middle,
        vs_vanilla=None,
        vs_vanilla_min=None,
        vs_vanilla_max=None,
        counters={"migrate_copy.bytes_engines": cell.channels, "migrate_copy.bytes_caller": 1},
        settings=cell.told_settings,
        condition=cell.condition,
        channels=cell.channels,
        cpus=cpus,
        model=None if counting else model,
        seen=seen(
            instructions_per_page=random.uniform(990, 1010) if counting else None,
            touch=Touch(99, p99, 2 * p99, 3 * p99, Touches(90_000, 200, p99))
            if "touch" in cell.asks
            else None,
            remap=Remap(9, ns / 9, ns, ns / 2) if "remap" in cell.asks else None,
            reads=Reads(9, ns / 9, ns / 8, ns / 7) if "reads" in cell.asks else None,
            hog=Hog(9, random.uniform(0.3, 0.6), ns / 99) if "hog" in cell.asks else None,
            serving=_serving(p99) if "serving" in cell.asks else None,
            pages_moved=cell.shape.bytes / BASE_PAGE if cell.reason else None,
            cpu_ns_per_page=None if cell.reason or cell.load else random.uniform(500, 2000),
            faults=Faults((ns, ns), (ns, ns), (ns / 2, ns / 2), (ns, 1.1 * ns))
            if cell.load
            else None,
        ),
        clock="instructions" if counting else "virtual" if model else "host",
    )


def _serving(ns: int) -> Serving:
    phase = Phase(1000, 50_000.0, 20_000, ns, 2 * ns, 3 * ns)
    slots = ((-1000.0, 1000.0, 3000.0), (40.0, 30.0, 40.0), (2e4, 3e4, 2e4), (3e4, 3.0 * ns, 3e4))
    return Serving(2, 1e8, 1e8, 2e8, 3e8, 2e6, 1e6, 4096.0, *slots, phase, phase, phase, phase)
