# SPDX-License-Identifier: GPL-2.0-only
"""Has experiments measured: on which machines, and as many at once as do not disturb each other."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from pagehaul import ui
from pagehaul.bench.collect import Tally, check_determinism, collect, row_of
from pagehaul.bench.effort import Effort
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.places import Machine, Place, Turn
from pagehaul.bench.measure import Observed
from pagehaul.bench.plan import Named, turns
from pagehaul.bench.row import Integrity, Results, Row, compare
from pagehaul.errors import PagehaulError
from pagehaul.paths import REPO

# Why an experiment is measured nowhere, if its kind of machine does not say.
_NO_CACHES = "no caches are modelled"
_NO_MODEL = "a machine model needs a guest"

# What a boot, and a scene of a server, take by what a usual cell takes.
_BOOT_COST = 4
_SCENE_COST = 30

_Lines = list[tuple[str, dict[str, Any]]]


class _Share:
    """How much of everything is done, and when it will all be: cells are counted by their cost."""

    def __init__(self, boots: Sequence["_Boot"]) -> None:
        self._all = sum(_BOOT_COST + boot.cost for boot in boots)
        self._done = 0
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def add(self, cost: int) -> None:
        """Take note of something that is done."""
        with self._lock:
            self._done += cost

    def __str__(self) -> str:
        """Return it for people: 40% of all, 3 min left."""
        done = min(1.0, self._done / self._all)
        text = f"{done:.0%} of all"
        # Before that the boots, which go first, would decide.
        if done > 0.05:
            left_s = (time.monotonic() - self._started) * (1 - done) / done
            text += f", {left_s / 60:.0f} min left" if left_s >= 60 else ", a minute left"
        return text


@dataclass
class _Job:
    """All that is measured at one place: cells of experiments, and what was seen of them.

    Guests of independent places are booted by themselves, one for each kernel; those of others
    together, so that they take turns.
    """

    place: Place
    quick: bool
    effort: Effort
    nodes: tuple[int, int]
    cells: list[Named] = field(default_factory=list)
    observed: list[Observed] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    boots: list["_Boot"] = field(default_factory=list)
    boots_left: int = 0

    def add(self, named: Named) -> None:
        """Have a cell measured, too."""
        self.cells.append(named)
        self.observed.append(Observed(named[1], self.place.kind.counts_moves))
        if named[1].kernel not in self.kernels:
            self.kernels.append(named[1].kernel)

    def plan(self) -> None:
        """Decide what is to be booted at once, again and again."""
        together = [[kernel] for kernel in self.kernels]
        self.boots = [
            _Boot(self, kernels, number)
            for number in range(self.effort.boots)
            for kernels in (together if self.place.independent else [self.kernels])
        ]
        self.boots_left = len(self.boots)

    def rows(self) -> list[Row]:
        """Return the rows of the cells that could be measured."""
        named = zip(self.cells, self.observed, strict=True)
        found = [row_of(name, observed, self.place) for (name, _), observed in named]
        return [row for row in found if row is not None]


@dataclass
class _Boot:
    """Guests that are up at the same time for a job: the only one, or those that take turns.

    seen are the lines that have come so far, of a boot that has not come to its end.
    """

    job: _Job
    kernels: Sequence[str]
    number: int
    seen: _Lines = field(default_factory=list)

    def turns(self) -> list[Turn]:
        """Return what is measured, in its order."""
        job = self.job
        return turns(job.cells, self.kernels, job.effort, job.nodes, self.number)

    @property
    def cost(self) -> int:
        """What it takes to measure, by what a usual cell takes."""
        return len(self.turns()) * self.cell_cost

    @property
    def cell_cost(self) -> int:
        """What each of its cells takes."""
        return _SCENE_COST if any(cell.scene for _, cell in self.job.cells) else 1

    def run(self, machine: Machine, share: _Share, stop: Event) -> _Lines:
        """Measure, and return what was printed."""
        job = self.job
        order = self.turns()
        times = "" if job.effort.boots == 1 else f", pass {self.number + 1} of {job.effort.boots}"
        done = 0
        title = f"Measure {' and '.join(self.kernels)} ({job.place.label}{times})"
        with ui.step(title) as step:

            def on_line(kernel: str, line: dict[str, Any]) -> None:
                nonlocal done
                done += 1
                share.add(self.cell_cost)
                self.seen.append((kernel, line))
                step.detail(f"{done} of {len(order)}; {share}")

            share.add(_BOOT_COST)
            found = machine.run(job.place, job.quick, order, job.effort.timeout, on_line, stop)
        if len(found) != len(order):
            raise PagehaulError(f"movebench measured {len(found)} of {len(order)} cells")
        return found


def measure(
    wanted: Sequence[Experiment],
    machine: Machine,
    *,
    quick: bool,
    on_part: Callable[[Results, str], None],
    boots: int | None = None,
) -> Results:
    """Run the experiments on all kernels of `machine`, in so many boots or as their machines need.

    on_part gets the results so far and the name of an experiment when that one is done. After
    Ctrl-C the results are those of all cells that were measured by then, and say so.
    """
    tally = Tally()
    wanted = _possible(wanted, machine, quick, tally)
    jobs, measured_as = _jobs(wanted, machine, quick, boots)
    told: set[str] = set()
    results = _results([], machine, quick, tally)
    try:
        for job in _finished(jobs, machine, quick, tally):
            if job.place.kind.counts_moves:
                check_determinism(job.rows(), tally)
            done = [each for each in jobs if not each.boots_left]
            results = _results(_rows(wanted, done, measured_as), machine, quick, tally)
            for experiment in wanted:
                name = experiment.name
                mine = [each for each in jobs if _has(each, measured_as[name])]
                if name not in told and results.of(name) and all(each in done for each in mine):
                    told.add(name)
                    on_part(results, name)
    except KeyboardInterrupt:
        for boot in (boot for job in jobs for boot in job.boots):
            _take(boot, [each for each in boot.seen if each[1]], tally)
        rows = _rows(wanted, jobs, measured_as)
        if not rows:
            raise
        tally.interrupted = True
        return _results(rows, machine, quick, tally)
    if not results.rows:
        raise PagehaulError("none of these experiments can be measured on this machine")
    return results


def _possible(
    wanted: Sequence[Experiment], machine: Machine, quick: bool, tally: Tally
) -> list[Experiment]:
    """Return the experiments that can be measured; tell of the others why they cannot."""
    possible = []
    for experiment in wanted:
        why = None
        if experiment.guest_only and not machine.disposable():
            why = "it disturbs a machine, and needs a guest"
        elif not machine.places(experiment, quick):
            why = experiment.machine.why_not
            if experiment.models:
                why = _NO_MODEL
            elif experiment.about_caches:
                why = _NO_CACHES
        if why is None:
            possible.append(experiment)
        else:
            tally.note(f"{experiment.name}: left out, {why}")
    return possible


def _jobs(
    wanted: Sequence[Experiment], machine: Machine, quick: bool, boots: int | None
) -> tuple[list[_Job], dict[str, str]]:
    """Return the jobs, and under which name the cells of each experiment are measured.

    Experiments that look at the same cells in other ways have them measured once.
    """
    first = {experiment.cells: experiment.name for experiment in reversed(wanted)}
    measured_as = {experiment.name: first[experiment.cells] for experiment in wanted}
    jobs: dict[Place, _Job] = {}
    for experiment in wanted:
        if measured_as[experiment.name] != experiment.name:
            continue
        for place in machine.places(experiment, quick):
            if place not in jobs:
                effort = place.kind.effort(place.clock, quick=quick)
                if boots is not None:
                    effort = replace(effort, boots=boots)
                jobs[place] = _Job(place, quick, effort, machine.nodes())
            for cell in experiment.cells(machine.size(place, quick)):
                if cell.kernel in machine.kernels():
                    jobs[place].add((experiment.name, cell))
    found = [job for job in jobs.values() if job.cells]
    for job in found:
        job.plan()
    return found, measured_as


def _has(job: _Job, name: str) -> bool:
    return any(found == name for found, _ in job.cells)


def _rows(
    wanted: Sequence[Experiment], jobs: Sequence[_Job], measured_as: dict[str, str]
) -> list[Row]:
    """Return the rows of some jobs, experiment by experiment."""
    done = [row for job in jobs for row in job.rows()]
    return [
        replace(row, experiment=experiment.name)
        for experiment in wanted
        for row in done
        if row.experiment == measured_as[experiment.name]
    ]


def _finished(jobs: Sequence[_Job], machine: Machine, quick: bool, tally: Tally) -> Iterator[_Job]:
    """Run all jobs, and yield each as it is done: first those that may run beside each other."""
    stop = Event()
    together = [boot for job in jobs if job.place.independent for boot in job.boots]
    alone = [boot for job in jobs if not job.place.independent for boot in job.boots]
    share = _Share([*together, *alone])
    places = list(dict.fromkeys(boot.job.place for boot in together))
    with ThreadPoolExecutor(machine.at_once(places, quick)) as pool:
        futures = {pool.submit(boot.run, machine, share, stop): boot for boot in together}
        try:
            for future in as_completed(futures):
                yield from _taken(futures[future], future.result(), tally)
        except BaseException:
            # The others would go on for long.
            stop.set()
            _cancel(futures)
            raise
    for boot in alone:
        yield from _taken(boot, boot.run(machine, share, stop), tally)


def _cancel(futures: dict[Future[_Lines], _Boot]) -> None:
    for future in futures:
        future.cancel()
    wait(futures, return_when=FIRST_EXCEPTION)


def _taken(boot: _Boot, found: _Lines, tally: Tally) -> Iterator[_Job]:
    """Take what a boot has measured; yield its job if that was the last one of it."""
    _take(boot, found, tally)
    tally.boots.append(f"{' and '.join(boot.kernels)} ({boot.job.place.label})")
    boot.job.boots_left -= 1
    if not boot.job.boots_left:
        yield boot.job


def _take(boot: _Boot, found: _Lines, tally: Tally) -> None:
    boot.seen.clear()
    for _, line in found:
        index = int(line["label"])
        collect(line, boot.job.cells[index][0], boot.job.observed[index], tally)


def _results(rows: Sequence[Row], machine: Machine, quick: bool, tally: Tally) -> Results:
    return Results(
        environment={
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": _commit(),
            "quick": quick,
            "interrupted": tally.interrupted,
            **machine.environment(),
            "boots": list(tally.boots),
            "notes": list(tally.notes),
        },
        rows=compare(rows),
        integrity=Integrity(tally.bytes_verified, tally.mismatches, tally.not_moved),
    )


def _commit() -> str | None:
    """Git's name of what is measured, "-dirty" when it was changed; None outside a clone."""
    command = ["git", "-C", str(REPO), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() or None
