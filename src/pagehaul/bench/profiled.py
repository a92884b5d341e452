# SPDX-License-Identifier: GPL-2.0-only
"""`bench --profile CELL`: where the time of one cell goes."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pagehaul.bench import profile
from pagehaul.bench.cell import METHODS, Cell, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.guests import Guests
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.measuring import measure
from pagehaul.bench.row import Results
from pagehaul.errors import PagehaulError
from pagehaul.guest import models
from pagehaul.paths import cache_dir

HELP = (
    "only one cell, and where its time goes: KERNEL:METHOD:KBxFOLIOS[:THREADS], such as "
    "pagehaul:parallel:4x16384:16 or vanilla:callers:2048x32:4"
)

_CELL = re.compile(r"(?P<kernel>[\w-]+):(?P<method>\w+):(?P<kb>\d+)x(?P<folios>\d+)(:(?P<n>\d+))?")
_METHODS = (*METHODS, "callers")
# Without a number of CPUs in the command or in the cell.
_CPUS = 16


def experiment(text: str) -> Experiment:
    """Return an experiment of the cell that `text` names; PagehaulError for another text."""
    found = _CELL.fullmatch(text)
    if found is None:
        raise PagehaulError(f"{text} is no cell: it should be {HELP.split(': ', 1)[1]}")
    if found["method"] not in _METHODS:
        raise PagehaulError(f"{found['method']} is no method: use one of {', '.join(_METHODS)}")
    threads = int(found["n"] or 1)
    shape = Shape(int(found["kb"]), int(found["folios"]))
    if not threads or not shape.bytes:
        raise PagehaulError(f"{text} is no cell: it has a 0 in it")
    cell = Cell(shape, found["kernel"], found["method"], threads)

    def cells(size: Size) -> tuple[Cell, ...]:
        if not size.fitting([shape]):
            raise PagehaulError(f"{text} does not fit into the {size.node_mb} MiB of a node")
        return (cell,)

    cpus = max(_CPUS, threads)
    return Experiment("profile", text, PARALLEL, cells, cpus=(cpus,), quick_cpus=(cpus,))


def measured(
    wanted: Experiment, machine: Guests, on_part: Callable[[Results, str], None]
) -> tuple[Results, dict[str, profile.Profile]]:
    """Measure a cell, and return where its time went, by what each guest was; on_part as measure().

    Only the simulator sees what each CPU does: the guests run in virtual time.
    """
    machine.models = machine.models or (models.DEFAULT,)
    with TemporaryDirectory(prefix="profile-", dir=cache_dir()) as name:
        machine.profile = Path(name)
        results = measure([wanted], machine, quick=True, boots=1, on_part=on_part)
        return results, _profiles(Path(name), machine)


def _profiles(directory: Path, machine: Guests) -> dict[str, profile.Profile]:
    """Return what the simulator wrote into a directory, by what each guest was."""
    found = {}
    for path in sorted(directory.iterdir()):
        kernel = next(kernel for kernel in machine.images if path.stem.startswith(f"{kernel}-"))
        found[path.stem] = profile.of_kernel(path, machine.images[kernel])
    return found
