# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's plan and arithmetic, on a machine that is made up here."""

import json
import os
import shlex
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from servings import served

from pagehaul.bench import measuring, plan
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import Cell, Shape, Size
from pagehaul.bench.choices import forced
from pagehaul.bench.collect import Tally
from pagehaul.bench.effort import Effort
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines import real, setup
from pagehaul.bench.machines.kinds import DIES, DMA, PARALLEL
from pagehaul.bench.machines.places import OnLine, Place, Turn, parse_lines
from pagehaul.bench.machines.real import Host
from pagehaul.bench.machines.referee import Referee
from pagehaul.bench.measures.cpu_time import MEASURE as CPU_TIME
from pagehaul.bench.measures.hog import MEASURE as HOG
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.measures.pages_moved import MEASURE as PAGES_MOVED
from pagehaul.bench.measures.reads import MEASURE as READS
from pagehaul.bench.measures.remap import MEASURE as REMAP
from pagehaul.bench.measures.touch import MEASURE as TOUCH
from pagehaul.bench.measures.touch import Touches
from pagehaul.bench.row import Results, Row
from pagehaul.bench.store import entry_of, load, parse
from pagehaul.bench.tables import experiment_table
from pagehaul.cli import bench, main
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs
from pagehaul.paths import REPO


def options(line: str) -> dict[str, Any]:
    """The words of a plan's line, as movebench would understand them."""
    found: dict[str, Any] = {"knobs": {}}
    for word in shlex.split(line):
        name, _, value = word.removeprefix("--").partition("=")
        if name == "knob":
            knob, _, setting = value.partition("=")
            found["knobs"][knob] = int(setting) if setting.isdigit() else setting
        else:
            found[name] = int(value) if value.isdigit() else value or True
    return found


@dataclass
class Model:
    """Plays both kernels: Pagehaul with 2 CPUs moves at 3 bytes a nanosecond, all else at 2."""

    only: tuple[str, ...] = ("vanilla", "pagehaul")
    mismatches: int = 0
    not_moved: dict[str, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    lost_lines: int = 0
    boots: list[list[tuple[str, dict[str, Any]]]] = field(default_factory=list)

    def kernels(self) -> tuple[str, ...]:
        return self.only

    def places(self, experiment: Experiment, quick: bool) -> tuple[Place, ...]:
        kind = experiment.machine
        if experiment.models or (len(self.only) == 1 and kind not in (PARALLEL, DIES, DMA)):
            return ()
        cpus = 1 if kind.counts_moves else 2
        return (Place(kind, cpus, "instructions" if kind.counting else "host"),)

    def disposable(self) -> bool:
        return len(self.only) > 1

    def nodes(self) -> tuple[int, int]:
        return 0, 1

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        return 1

    def size(self, place: Place, quick: bool) -> Size:
        return Size(quick, place.cpus, 1152, 1, place.model)

    def environment(self) -> dict[str, Any]:
        return {"machines": {}}

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> list[tuple[str, dict[str, Any]]]:
        lines = [(turn.kernel, options(turn.line)) for turn in turns]
        self.boots.append(lines)
        found = []
        for kernel, line in lines[self.lost_lines :]:
            found.append((kernel, self.measure(kernel, line)))
            on_line(*found[-1])
        return found

    def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
        if "kind" in line:
            return self.faults(kernel, line)
        if "scene" in line:
            return served(100, [[20_000, 10]], label=str(line["label"]))
        ways = line["ways"]
        size = line["folio-kb"] * 1024 * line["folios"] * ways
        speed = 3 if line["knobs"].get("max_helpers", 0) == 1 else 2
        error = self.errors.get(line["folio-kb"])
        reps = 0 if error else line["reps"]
        reads = {"warm_ns": [5] * reps, "own_ns": [9] * reps, "read_ns": [700] * reps}
        remaps = {"first_ns": [1] * reps, "last_ns": [9] * reps, "away_ns": [8] * reps}
        return {
            "label": str(line["label"]),
            "moves": [ways] * reps,
            "ns": [size // speed] * reps,
            "cpu_ns": [size // 4] * reps,
            "moved_bytes": [size] * reps,
            "not_moved": self.not_moved.get(kernel, 0),
            "statuses": {"-16": 1},
            "bytes_verified": size * reps,
            "mismatches": self.mismatches,
            "counters": {"vmstat.pgmigrate_success": reps, **self.help(line, size * reps)},
            "error": error,
            **(remaps if line.get("remaps") else {}),
            **(reads if line.get("cache") else {}),
            # Of each CPU's time, a quarter is not the hog's.
            **({"hog_ns": [size // speed * 2 * 3 // 4] * reps} if line.get("hogs") == 2 else {}),
        }

    def faults(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
        """Faults take 1 us, and 2 where migration drains for mapped folios."""
        reps = line["reps"]
        return {
            "label": str(line["label"]),
            "ns": [1_000_000 + 1000 * n for n in range(reps)],
            "cpu_ns": [800_000 + 1000 * n for n in range(reps)],
            "user_ns": [500_000] * reps,
            "latency_ns": [2000 if line.get("drain") == "mapped" else 1000] * reps,
            "moved_bytes": [line["mb"] << 20] * reps,
            "not_moved": 0,
            "bytes_verified": 0,
            "mismatches": self.mismatches,
            "counters": {"vmstat.thp_fault_alloc": 16 * reps},
            "error": None,
        }

    def help(self, line: dict[str, Any], moved: int) -> dict[str, int]:
        """Helpers do a quarter of the work; channels do all of the copying."""
        if line["knobs"].get("non_temporal"):
            return {"migrate_copy.bytes_caller": moved}
        if line["knobs"].get("engines/dcbm/offloading"):
            return {"migrate_copy.bytes_engines": moved}
        return {"migrate_copy.helper_ns": moved // 8} if "max_helpers" in line["knobs"] else {}


EFFORT = PARALLEL.effort("host", quick=True)


def arguments(**options: Any) -> Namespace:
    """What the command line was."""
    none = dict.fromkeys(("boots", "cpus", "model", "experiment", "json", "html", "profile"))
    return Namespace(**{**none, "full": False, "tables": False, "host": False, **options})


def measure(model: Model, *names: str) -> Results:
    done: list[str] = []
    results = measuring.measure(
        [EXPERIMENTS[name] for name in names],
        model,
        quick=True,
        on_part=lambda _, name: done.append(name),
    )
    assert sorted(done) == sorted(name for name in names if results.of(name))
    return results


def test_kernels_take_turns_and_swap_who_is_first() -> None:
    model = Model()
    measure(model, "classic")
    first, second = ([kernel for kernel, _ in boot[:9]] for boot in model.boots)
    vanilla, pagehaul = ["vanilla"], ["pagehaul"] * 2
    assert first == vanilla + pagehaul + pagehaul + vanilla + vanilla + pagehaul
    assert second == pagehaul + vanilla + vanilla + pagehaul + pagehaul + vanilla


def test_as_many_boots_as_asked_for() -> None:
    model = Model()
    results = measuring.measure(
        [EXPERIMENTS["classic"]], model, quick=True, boots=5, on_part=lambda *_: None
    )
    assert len(model.boots) == 5
    assert {len(row.gbps) for row in results.rows} == {5 * EFFORT.rounds}


@pytest.mark.parametrize("text", ["0", "-1", "1001", "two", "1.5", "²"])
def test_no_number_of_boots(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["bench", "--boots", text])
    assert "is not a number from 1 to 1000" in capsys.readouterr().err


# They need guests in virtual time.
OF_MODELS = [name for name, experiment in EXPERIMENTS.items() if experiment.models]


def test_all_quick_experiments_take_few_boots() -> None:
    model = Model()
    results = measure(model, *EXPERIMENTS)
    # One for each kind of machine, twice where the host's clock tells: of both kernels, or of one
    # that counts instructions.
    assert len(model.boots) <= 16
    there = model.kernels()
    size = model.size(Place(PARALLEL, 2), quick=True)
    assert results.experiments() == [
        name
        for name, experiment in EXPERIMENTS.items()
        if name not in OF_MODELS and any(cell.kernel in there for cell in experiment.cells(size))
    ]
    # A measurement makes a valid file.
    document = {
        "schema": 2,
        "environment": dict(results.environment),
        "rows": [entry_of(row) for row in results.rows],
        "integrity": vars(results.integrity),
        "verdict": [],
    }
    parse(json.loads(json.dumps(document)), "f")


def test_methods_set_their_knobs_on_pagehaul_and_none_on_vanilla() -> None:
    model = Model()
    measure(model, "callers")
    seen = set()
    for boot in model.boots:
        for kernel, line in boot:
            knobs = tuple(sorted(line["knobs"].items()))
            seen.add((kernel, line["callers"], knobs))
    assert seen == {
        ("vanilla", 1, ()),
        ("vanilla", 2, ()),
        ("vanilla", 4, ()),
        ("pagehaul", 1, (("enabled", 0),)),
        ("pagehaul", 1, (("debug.parallel_batches", 0), ("enabled", 1), ("max_helpers", 0))),
        ("pagehaul", 1, (("debug.parallel_batches", 0), ("enabled", 1), ("max_helpers", 1))),
        ("pagehaul", 1, (("debug.parallel_batches", 1), ("enabled", 1), ("max_helpers", 1))),
    }


def test_placements_are_set_by_name() -> None:
    model = Model()
    measure(model, "placement")
    knobs = [line["knobs"] for _, line in model.boots[0] if "placement" in line["knobs"]]
    assert {found["placement"] for found in knobs} == {"spread", "fill"}
    assert all((found["debug.parallel_batches"], found["max_helpers"]) == (1, 1) for found in knobs)


def test_rounds_go_through_the_methods_of_a_shape() -> None:
    cells = [("x", Cell(Shape(4, 64), "pagehaul", method)) for method in ("serial", "batch")]
    cells += [("x", Cell(Shape(64, 64), "pagehaul", method)) for method in ("serial", "batch")]
    cells += [("x", Cell(Shape(2048, 64), "pagehaul", method)) for method in ("serial", "batch")]
    effort = Effort(boots=1, rounds=2, target_mb=1, min_reps=3, max_reps=9, timeout=1.0)
    turns = plan.turns(cells, ["pagehaul"], effort, (2, 5), 0)
    lines = [options(turn.line) for turn in turns]
    assert [line["label"] for line in lines] == [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5]
    # 1 MiB by 256 KiB is 4 times, in 2 rounds, there and back; so small ones warm up each time.
    assert [(line["reps"], line["ways"]) for line in lines[:4]] == [(2, 2)] * 4
    # Folios of 64 KiB are faulted in again instead of being moved back.
    assert [(line["reps"], line["ways"]) for line in lines[4:8]] == [(2, 1)] * 4
    assert [line["warmups"] for line in lines[:4]] == [1, 1, 1, 1]
    # Those of 4 MB do so for each method once, and after a wait.
    assert [line["warmups"] for line in lines[4:8]] == [1, 1, 1, 0]
    # Large moves warm up once, when the memory is new.
    assert [line["warmups"] for line in lines[8:]] == [1, 0, 0, 0]
    assert (lines[0]["from"], lines[0]["to"]) == (2, 5)


def test_an_engine_is_known_before_its_moves_are_timed() -> None:
    cells = [("x", Cell(Shape(2048, 64), "pagehaul", method)) for method in ("batch", "hybrid")]
    effort = Effort(boots=1, rounds=2, target_mb=1, min_reps=3, max_reps=9, timeout=1.0)
    turns = plan.turns(cells, ["pagehaul"], effort, (0, 1), 0)
    assert [options(turn.line)["warmups"] for turn in turns] == [1, 2, 0, 2]


def test_rows_hold_all_boots_and_their_ratio() -> None:
    results = measure(Model(), "classic")
    (row,) = (r for r in results.rows if r.method == "parallel" and r.folio_kb == 2048)
    assert row.vs_vanilla == pytest.approx(1.5)
    assert "instructions_per_page" not in row.seen
    assert len(row.gbps) == EFFORT.boots * EFFORT.rounds
    assert row.counters["vmstat.pgmigrate_success"] == len(row.gbps)


def test_what_is_seen_beside_moves_is_kept_by_repetitions() -> None:
    class Touched(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            if "touch" in line:
                found["touch_ns"] = [7] * line["reps"]
                found["touches"] = [[2, 3], [7, 1]]
            return found

    for row in measure(Touched(), "first-folio").rows:
        remap = REMAP.of(row)
        assert remap is not None
        assert remap.moves == len(row.gbps)
        assert (remap.first_ns, remap.last_ns, remap.away_ns) == (1, 9, 8)
    for row in measure(Touched(), "stall").rows:
        touch = TOUCH.of(row)
        assert touch is not None
        assert touch.moves == len(row.gbps)
        assert (touch.p50_ns, touch.max_ns) == (7, 7)
        # Of each turn there are 4.
        assert touch.all == Touches(4 * EFFORT.boots * EFFORT.rounds, 2, 7)


def test_non_temporal_reads_before_and_after_moves() -> None:
    results = measure(Model(), "non-temporal")
    assert {
        (reads.warm_ns, reads.own_ns, reads.moved_ns)
        for reads in map(READS.of, results.rows)
        if reads
    } == {(5, 9, 700)}
    counted = [(row, READS.of(row)) for row in results.rows]
    assert all(reads and reads.moves == len(row.gbps) for row, reads in counted)
    shares = {
        (row.method, *row.settings.values()): (row.counters.get("migrate_copy.bytes_caller", 0) > 0)
        for row in results.rows
    }
    assert shares == {
        ("serial",): False,
        ("batch",): False,
        ("batch", "always"): True,
        ("parallel",): False,
        ("parallel", "always"): True,
    }


@dataclass
class Virtual(Model):
    """Guests in virtual time: each experiment is measured where it wants to be."""

    names: tuple[str, ...] = ("plain",)
    order: list[tuple[str, Place]] = field(default_factory=list)
    fails: Place | None = None
    stopped: bool = False

    def places(self, experiment: Experiment, quick: bool) -> tuple[Place, ...]:
        if experiment.about_caches:
            return ()
        return tuple(
            Place(experiment.machine, cpus, "virtual", model)
            for model in experiment.models or self.names
            for cpus in experiment.machine_sizes(quick)
        )

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        return 2

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> list[tuple[str, dict[str, Any]]]:
        (kernel,) = {turn.kernel for turn in turns}
        if self.fails is not None:
            if place == self.fails:
                raise PagehaulError("it broke")
            self.stopped = stop.wait(10)
            raise PagehaulError("stopped")
        self.order.append((kernel, place))
        return super().run(place, quick, turns, timeout, on_line, stop)


def test_each_kernel_is_booted_once_on_each_machine_of_virtual_time() -> None:
    model = Virtual()
    results = measure(model, "folio-size", "hugetlb")
    sizes = {name: EXPERIMENTS[name].machine_sizes(quick=True) for name in results.experiments()}
    counts = {cpus for found in sizes.values() for cpus in found}
    places = [Place(PARALLEL, cpus, "virtual", "plain") for cpus in counts]
    wanted = [(kernel, place) for place in places for kernel in ("vanilla", "pagehaul")]
    assert sorted(model.order, key=str) == sorted(wanted, key=str)
    for row in results.rows:
        assert (row.model, row.clock) == ("plain", "virtual")
        # All CPUs of a machine, or one: fewer are those of another one.
        assert row.threads in (1, row.cpus)
        assert row.vs_vanilla is not None
    for name, cpus in sizes.items():
        assert {row.cpus for row in results.of(name)} == set(cpus)


def test_moves_in_virtual_time_go_on_until_they_can_be_told() -> None:
    model = Virtual()
    measure(model, "policy", "stall", "first-folio", "reasons")
    lines = [line for boot in model.boots for _, line in boot]
    apart = ("touch", "remaps", "reason")
    least = {
        next((name for name in apart if name in line), ""): line.get("at-least") for line in lines
    }
    assert least == {"": 10_000, "touch": 100_000, "remaps": None, "reason": None}
    assert {line["reps"] for line in lines} == {3}


def test_validation_is_measured_as_published_on_models_of_its_machines() -> None:
    model = Virtual()
    results = measure(model, "validation")
    assert {row.model for row in results.rows} == {"grace", "epyc-zen3"}
    assert {row.method for row in results.rows} == {"threads", "dma"}
    assert {row.kernel for row in results.rows} == {"pagehaul"}
    knobs = [line["knobs"] for boot in model.boots for _, line in boot]
    assert all(each["debug.parallel_batches"] == 0 for each in knobs)
    assert max(each["debug.batch_pages"] for each in knobs) == 32768
    channels = "module.dcbm/parameters/nr_dma_chan"
    dma = [each for each in knobs if channels in each]
    assert {each[channels] for each in dma} == {1, 4, 16}
    # What a channel takes for a base page, besides the copy: for huge pages none was published.
    page_ns = "module.softdma/parameters/page_ns"
    assert {
        (line["folio-kb"], line["knobs"][page_ns])
        for boot in model.boots
        for _, line in boot
        if page_ns in line["knobs"]
    } == {(4, 330), (64, 330), (2048, 0)}


def test_scaling_has_one_caller_with_helpers_beside_many_callers() -> None:
    results = measure(Virtual(), "scaling")
    counts = {1, 2, 4, 8, 16}
    for case in (("", 4), ("", 64), ("", 2048), ("hugetlb", 2048)):
        of_case = [row for row in results.rows if (row.condition, row.folio_kb) == case]
        for method in ("callers", "parallel"):
            assert {row.threads for row in of_case if row.method == method} == counts
        assert all(row.vs_vanilla is not None for row in of_case)
    gigantic = [row for row in results.rows if row.folio_kb == 1 << 20]
    assert {row.threads for row in gigantic if row.kernel == "vanilla"} == {1}
    assert {row.threads for row in gigantic if row.kernel == "pagehaul"} == counts


def test_judge_has_each_cell_with_and_without() -> None:
    results = measure(Virtual(only=("vanilla", "pagehaul", "judge")), "judge")
    assert {(row.kernel, row.model, row.cpus) for row in results.rows} == {
        ("judge", name, cpus) for name in ("plain", "epyc-zen3") for cpus in (2, 8, 16)
    }

    def cell(row: Row) -> tuple[object, ...]:
        rest = {name: value for name, value in row.settings.items() if "debug." not in name}
        return row.case, row.method, row.threads, row.channels, row.machine, rest

    whole = [row for row in results.rows if not any("debug." in name for name in row.settings)]
    kept = [cell(row) for row in whole]
    assert len(kept) == len({str(each) for each in kept})
    assert all(cell(row) in kept for row in results.rows)
    names = {name for row in results.rows for name in row.settings if "debug." in name}
    assert names == {"debug.set_folios"}


def test_a_guest_that_fails_ends_the_others() -> None:
    model = Virtual(only=("pagehaul",), fails=Place(PARALLEL, 2, "virtual", "plain"))
    with pytest.raises(PagehaulError, match="it broke"):
        measure(model, "folio-size")
    assert model.stopped


def test_what_is_about_caches_is_left_out_where_there_are_none() -> None:
    results = measure(Virtual(), "hugetlb", "non-temporal")
    assert results.experiments() == ["hugetlb"]
    assert results.environment["notes"] == ["non-temporal: left out, no caches are modelled"]


@pytest.mark.parametrize("words", [["--cpus", "0"], ["--cpus", "65"], ["--model", "pdp-11"]])
def test_no_such_machine(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["bench", *words])
    assert words[1] in capsys.readouterr().err


def test_results_are_kept_and_end_with_a_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cprogs, "build_static", lambda _: tmp_path)
    monkeypatch.setattr(setup, "Host", lambda _: Model())
    assert bench.run(arguments(experiment=["classic"], host=True)) == 0
    (path,) = (cache / "results").iterdir()
    kept = load(path)
    assert kept.experiments() == ["classic"]
    assert kept.verdict
    printed = capsys.readouterr()
    assert str(path) in printed.err.replace("\n", "")
    # No tables unless they are asked for.
    assert "100,000 base pages" not in printed.out
    assert bench.run(arguments(experiment=["classic"], host=True, tables=True)) == 0
    assert "100,000 base pages" in capsys.readouterr().out


def test_channels_never_copy_more_than_everything() -> None:
    table = experiment_table(measure(Model(), "cpu-freed"), "cpu-freed")
    assert {cells[3] for cells in table.rows} == {"0%", "100%"}


def test_instructions_are_nanoseconds_of_one_page() -> None:
    results = measure(Model(), "path-length")
    by_threads = {(row.threads, INSTRUCTIONS.of(row)) for row in results.rows}
    assert (1, 2048.0) in by_threads
    assert {count for threads, count in by_threads if threads == 1} == {2048.0}
    # Only the small moves ask whether others should help.
    asked = {row.shape for row in results.rows if row.threads > 1}
    assert asked == {(4, 1), (4, 8), (4, 32)}


def test_first_folio_asks_when_folios_are_back_and_tries_larger_batches() -> None:
    model = Model()
    results = measure(model, "first-folio")
    assert all(line["remaps"] for boot in model.boots for _, line in boot)
    batches = {
        row.shape: row.settings["batch_pages"]
        for row in results.rows
        if "batch_pages" in row.settings
    }
    assert batches == {(4, 1024): "8192", (2048, 16): "8192"}
    asked = {line["knobs"].get("debug.batch_pages") for boot in model.boots for _, line in boot}
    assert asked == {None, 8192}
    assert {(remap.first_ns, remap.last_ns) for remap in map(REMAP.of, results.rows) if remap} == {
        (1, 9)
    }
    # The kernel's default, and values that it does not allow, are not tried.
    full = EXPERIMENTS["first-folio"].cells(Size(False, 2, 4096))
    of_one = [
        cell.settings for cell in full if (cell.shape.folio_kb, cell.shape.folios) == (2048, 1)
    ]
    assert of_one == [{}] * 5
    largest = {cell.settings.get("batch_pages") for cell in full if cell.shape.folios == 1024}
    assert largest == {None, "2048", "8192", "32768"}


def test_busy_is_compared_with_busy_and_tells_what_the_hogs_lose() -> None:
    model = Model()
    results = measure(model, "busy")
    assert {(row.condition, HOG.of(row) is None) for row in results.rows} == {
        ("idle", True),
        ("busy", False),
    }
    row, high = (
        r for r in results.rows if (r.condition, r.method, r.folio_kb) == ("busy", "parallel", 2048)
    )
    assert (dict(row.settings), dict(high.settings)) == ({}, {"priority": "high"})
    assert row.vs_vanilla == pytest.approx(1.5)
    hog = HOG.of(row)
    assert hog is not None
    ns = row.bytes // 3
    assert (hog.share, hog.lost_ns) == pytest.approx((0.75, ns * 2 / 4), rel=1e-6)
    assert hog.moves == len(row.gbps) >= 5
    # Idle cells have no hogs, and busy ones have one on each CPU.
    assert {line.get("hogs") for boot in model.boots for _, line in boot} == {None, 2}


def test_counted_busy_cells_are_all_busy_and_times_of_several_cpus() -> None:
    model = Model()
    results = measure(model, "busy-counted")
    assert {(row.condition, HOG.of(row) is None) for row in results.rows} == {("busy", False)}
    # Others use the clock as well.
    assert {INSTRUCTIONS.of(row) for row in results.rows} == {None}
    assert {line["hogs"] for boot in model.boots for _, line in boot} == {2}


def test_channels_are_asked_for_before_they_are_used() -> None:
    model = Model()
    results = measure(model, "hybrid")
    settings = [line["knobs"] for _, line in model.boots[0] if "max_helpers" in line["knobs"]]
    names = (
        "vm.mt_page_copy",
        "module.dcbm/parameters/nr_dma_chan",
        "engines/dcbm/offloading",
    )
    used = {
        tuple((name.rpartition("/")[2], value) for name, value in knobs.items() if name in names)
        for knobs in settings
    }
    # In this order; the CPU alone needs none of them.
    assert used == {
        (),
        *(
            (*alone, ("nr_dma_chan", count), ("offloading", 1))
            for count in (1, 8)
            for alone in ((), (("vm.mt_page_copy", 0),))
        ),
    }
    assert {(row.method, row.channels) for row in results.rows} == {
        ("serial", 0),
        ("batch", 0),
        ("dma", 1),
        ("hybrid", 1),
        ("dma", 8),
        ("hybrid", 8),
    }


def test_channels_that_are_not_there_leave_their_cells_out() -> None:
    full = EXPERIMENTS["dma-folio-size"].cells(Size(False, 2, 4096))
    assert {cell.channels for cell in full} == {0, 1, 2, 4, 8, 16}
    assert all(cell.optional == bool(cell.channels) for cell in full)


def test_helpers_cpu_time_counts() -> None:
    results = measure(Model(), "cpu-freed")
    times = {row.method: CPU_TIME.of(row) for row in results.rows}
    assert times == {"serial": 1024.0, "batch": 1024.0 + 512.0, "dma": 1024.0, "hybrid": 1024.0}


def test_cells_of_two_experiments_are_measured_once() -> None:
    alone, both = Model(), Model()
    measure(alone, "hybrid")
    results = measure(both, "cpu-freed", "hybrid")
    assert len(both.boots[0]) == len(alone.boots[0])
    rows = {name: results.of(name) for name in ("cpu-freed", "hybrid")}
    assert len(rows["hybrid"]) == len(rows["cpu-freed"]) > 0
    for one, other in zip(rows["cpu-freed"], rows["hybrid"], strict=True):
        assert replace(one, experiment="hybrid") == other


def test_settings_are_knobs_of_pagehaul_only() -> None:
    settings = {"priority": "high"}
    ours = Cell(Shape(4, 64), "pagehaul", "parallel", 2, settings=settings)
    assert ours.knobs["priority"] == "high"
    assert Cell(Shape(4, 64), "vanilla", "serial", settings=settings).knobs == {}


def test_policy_forces_what_is_fixed_and_lets_the_kernel_choose_beside_it() -> None:
    model = Model()
    results = measure(model, "policy")
    pagehaul = [line["knobs"] for kernel, line in model.boots[0] if kernel == "pagehaul"]
    names = ("max_helpers", "debug.parallel_batches", "vm.mt_page_copy", "debug.chunk_kb")
    forced = {(1, ways, 1, chunk) for ways in (0, 1) for chunk in (16, 64, 128)}
    assert {tuple(knobs.get(name) for name in names) for knobs in pagehaul} == forced | {
        (None, None, None, None),
        (0, 0, None, None),
        (1, 1, 2, 128),
    }
    assert max(row.bytes for row in results.rows) == 64 << 20
    table = experiment_table(results, "policy")
    assert table.header == (
        "folios",
        "vanilla, GB/s",
        "off",
        "batch",
        "2 CPUs, copy, forced",
        "2 CPUs, forced",
        "2 CPUs, automatic",
        "automatic by best fixed",
    )
    # All that have 2 CPUs are equally fast. Nobody can share a page.
    assert {line[-1] for line in table.rows[1:]} == {"1.00 (2 CPUs, copy)"}
    assert table.rows[0][4:6] == ("", "")


@pytest.mark.parametrize(
    ("shape", "threads", "chunk_kb"),
    [
        (Shape(4, 8), 2, 16),
        (Shape(4, 8), 8, 4),
        (Shape(4, 7), 2, 12),
        (Shape(4, 65536), 2, 128),
        # Base pages are copied 64 at a time, large folios a batch at a time.
        (Shape(4, 65536), 16, 16),
        (Shape(64, 4096), 16, 128),
        (Shape(64, 4096), 32, 64),
        (Shape(2048, 128), 32, 64),
    ],
)
def test_there_is_a_chunk_for_each_cpu_that_is_forced(
    shape: Shape, threads: int, chunk_kb: int
) -> None:
    assert forced(shape, threads)["chunk_kb"] == str(chunk_kb)


def test_packages_of_what_is_measured_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(setup.tools, "require", lambda *names: asked.extend(names))
    monkeypatch.setattr(cprogs, "build_static", lambda _: tmp_path)
    monkeypatch.setattr(setup, "Host", lambda _: Model())
    for names, packages in ((["classic"], []), (["busy"], ["stress-ng"])):
        args = arguments(experiment=names, host=True)
        assert bench.run(args) == 0
        assert asked == packages


def test_reasons_name_their_nodes_and_are_compared_by_what_moved() -> None:
    class Half(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            if kernel == "pagehaul":
                found["moved_bytes"] = [moved // 2 for moved in found["moved_bytes"]]
            return found

    model = Half()
    results = measure(model, "reasons")
    assert {
        (line["reason"], line["from"], line["to"]) for boot in model.boots for _, line in boot
    } == {
        ("mbind", 0, 1),
        ("migrate_pages", 0, 1),
        ("demotion", 0, 1),
        ("demotion_mglru", 0, 1),
        ("promotion", 1, 0),
        ("balancing", 1, 0),
        ("cpuset", 0, 1),
        ("offlining", 1, 0),
        ("compaction", 1, 0),
    }
    for row in results.rows:
        pages = row.bytes // 4096
        assert PAGES_MOVED.of(row) == (pages if row.kernel == "vanilla" else pages // 2)
        # 3 bytes a nanosecond by 2, for half of them.
        expected = 1.0 if row.kernel == "vanilla" else 0.75
        assert row.vs_vanilla == pytest.approx(expected, rel=1e-4)
    # Nobody's machine loses its memory to it.
    results = measure(Model(only=("pagehaul",)), "classic", "reasons")
    assert results.experiments() == ["classic"]
    assert "reasons: left out" in results.environment["notes"][0]
    # The run leaves out, and names, a thing that a machine cannot do.
    results = measure(Model(errors={2048: "nothing moved"}), "reasons")
    assert {row.folio_kb for row in results.rows} == {4}
    assert any("nothing moved" in note for note in results.environment["notes"])


def test_counts_that_differ_are_noted() -> None:
    class Uneven(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            found["ns"][0] = int(found["ns"][0] * 1.01)
            return found

    assert measure(Model(), "path-length").environment["notes"] == []
    notes = measure(Uneven(), "path-length").environment["notes"]
    # Of moves of few pages there are more.
    for number in (15, 50):
        text = f"1 of {number} counts are more than 0.5% from the median"
        assert any(text in note for note in notes)


def test_vanilla_that_does_not_move_is_an_error() -> None:
    with pytest.raises(PagehaulError, match="vanilla did not move 1 folios"):
        measure(Model(not_moved={"vanilla": 1}), "classic")


def test_pagehaul_that_does_not_move_is_counted() -> None:
    results = measure(Model(not_moved={"pagehaul": 1}), "classic")
    assert results.integrity.not_moved > 0
    assert "did not move" in results.environment["notes"][0]


def test_a_cell_that_fails_is_an_error_unless_it_is_optional() -> None:
    with pytest.raises(PagehaulError, match=r"hugetlb, 2 MB x 1, serial on vanilla: broken"):
        measure(Model(errors={2048: "broken"}), "hugetlb")
    results = measure(Model(errors={1024 * 1024: "no memory"}), "hugetlb")
    assert results.environment["notes"] == ["hugetlb, 1 GB x 1: left out: no memory"]
    assert {row.folio_kb for row in results.rows} == {2048}


def test_cells_that_never_ran_are_an_error() -> None:
    with pytest.raises(PagehaulError, match=r"measured (\d+) of \d+ cells"):
        measure(Model(lost_lines=1), "classic")


def test_one_kernel_is_compared_with_itself_off() -> None:
    results = measure(Model(only=("pagehaul",)), "path-length", "classic")
    assert results.experiments() == ["classic"]
    assert "path-length: left out" in results.environment["notes"][0]
    ratios = [row.vs_vanilla for row in results.rows if row.method == "parallel"]
    assert ratios == pytest.approx([1.5, 1.5])


@pytest.mark.parametrize(("mismatches", "code"), [(0, 0), (1, 1)])
def test_the_exit_status_tells_of_wrong_content(
    mismatches: int, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cprogs, "build_static", lambda _: tmp_path)
    monkeypatch.setattr(setup, "Host", lambda _: Model(mismatches=mismatches))
    args = arguments(experiment=["classic"], json=tmp_path / "r.json", host=True)
    assert bench.run(args) == code
    # 2 shapes by 3 methods, in every round and boot.
    expected = 2 * 3 * EFFORT.rounds * EFFORT.boots * mismatches
    assert load(tmp_path / "r.json").integrity.mismatches == expected


def test_a_wrong_directory_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    args = arguments(json=tmp_path / "no" / "r.json")
    with pytest.raises(PagehaulError, match="its directory does not exist"):
        bench.run(args)


def test_thread_counts_end_with_the_cpus() -> None:
    assert Size(True, 1, 1).thread_counts() == ()
    assert Size(True, 2, 1).thread_counts() == (2,)
    assert Size(True, 6, 1).thread_counts() == (2, 4, 6)
    assert Size(True, 8, 1).thread_counts() == (2, 4, 8)


def test_shapes_that_do_not_fit_are_left_out() -> None:
    for name in ("folio-count", "folio-size", "classic", "callers", "hugetlb"):
        for cell in EXPERIMENTS[name].cells(Size(False, 4, 300)):
            assert cell.shape.bytes <= 300 << 20
    full = EXPERIMENTS["folio-count"].cells(Size(False, 4, 4096))
    assert max(cell.shape.bytes for cell in full) == 4 << 30


def test_hosts_with_one_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(real, "nodes_with_memory", lambda: [0])
    with pytest.raises(PagehaulError, match="needs two NUMA nodes with memory"):
        Host(Path("movebench"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PagehaulError, match="needs root"):
        Host(Path("movebench"))


def test_output_of_a_program_that_died_is_not_taken() -> None:
    assert parse_lines('{"a": 1}\n', 1, "", "") == [{"a": 1}]
    with pytest.raises(PagehaulError, match="exit code 139"):
        parse_lines('{"a": 1}\n', 139, "", "")
    with pytest.raises(PagehaulError, match="not JSON"):
        parse_lines("hello\n", 0, "", "")


def begun(referee: Referee, kernel: str) -> list[str]:
    return sorted(path.name for path in referee.directory(kernel).iterdir())


def test_a_turn_begins_when_all_have_booted_and_the_last_has_ended(tmp_path: Path) -> None:
    order = [
        Turn("vanilla", "a"),
        Turn("pagehaul", "b"),
        Turn("pagehaul", "c"),
        Turn("vanilla", ""),
    ]
    referee = Referee(tmp_path, order)
    referee.ready("pagehaul")
    assert begun(referee, "vanilla") == begun(referee, "pagehaul") == []
    referee.ready("vanilla")
    assert (begun(referee, "vanilla"), begun(referee, "pagehaul")) == (["1"], [])
    referee.done()
    assert (begun(referee, "vanilla"), begun(referee, "pagehaul")) == (["1"], ["1"])
    referee.done()
    referee.done()
    assert (begun(referee, "vanilla"), begun(referee, "pagehaul")) == (["1", "2"], ["1", "2"])
    referee.done()
    referee.abandon()
    assert "abandoned" in begun(referee, "vanilla")


@pytest.fixture(scope="module")
def movebench() -> str:
    return str(cprogs.build_static(REPO / "bench") / "movebench")


@pytest.mark.parametrize("name", ["says.sh", "../other.sh"])
def test_other_sources_have_programs_of_their_own(tmp_path: Path, cache: Path, name: str) -> None:
    for clone in ("a", "b"):
        directory = tmp_path / clone / "says"
        directory.mkdir(parents=True)
        (directory / "main.c").write_text('#include "../other.sh"\n')
        (directory / "../other.sh").write_text("")
        source = directory / name
        source.write_text(f"echo {clone}\n")
        # As old as any: make sees no difference.
        os.utime(source, (1, 1))
        (directory / "Makefile").write_text(f"$(O)/says: {name}\n\tcp $< $@\n")
        program = cprogs.build_static(directory) / "says"
        assert program.read_text() == f"echo {clone}\n"


WAITS = """\
#include <stdio.h>
#include <stdlib.h>
#include "waits.h"

int main(int argc, char **argv)
{
	static struct waits waits;

	for (int i = 2; i < argc; i++)
		add_wait(&waits, strtoull(argv[i], NULL, 10), strtoull(argv[1], NULL, 10));
	print_waits("waits", &waits);
	return 0;
}
"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[list[int]]]:
    """What movebench tells of waits by somebody who comes with a period."""
    directory = tmp_path_factory.mktemp("waits")
    (directory / "main.c").write_text(WAITS)
    program = directory / "waits"
    sources = [directory / "main.c", REPO / "bench" / "waits.c"]
    command = ["gcc", "-Wall", "-Werror", f"-I{REPO / 'bench'}", "-o", program, *sources]
    subprocess.run(command, check=True)

    def run(period: int, *times: int) -> list[list[int]]:
        words = [str(program), str(period), *map(str, times)]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        told: list[list[int]] = json.loads(f"{{{found.stdout.removeprefix(',')}}}")["waits"]
        return told

    return run


def test_a_wait_counts_for_all_touches_that_were_due(
    waits: Callable[..., list[list[int]]],
) -> None:
    assert waits(20) == []
    assert waits(20, 5, 5, 7) == [[5, 2], [7, 1]]
    # Due 20, 40 and 60 later.
    assert waits(20, 63) == [[3, 1], [23, 1], [43, 1], [63, 1]]
    # A read that is due when it is over need not wait.
    assert waits(20, 60) == [[20, 1], [40, 1], [60, 1]]
    assert sum(count for _, count in waits(200_000, 1_000_000_000)) == 5000


def test_waits_are_told_within_a_percent(waits: Callable[..., list[list[int]]]) -> None:
    most = 2**64 - 1
    times = [0, 1, 63, 64, 65, 127, 128, 129, 1000, 12_345, 999_999, 10**9, 10**12, 2**63, most]
    for ns in times:
        [[told, count]] = waits(most, ns)
        assert count == 1
        assert abs(told - ns) <= ns / 128


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folio-kb=3"], "not a number from 4"),
        (["--folio-kb=12"], "not a power of two"),
        (["--reps=0"], "not a number from 1"),
        (["--reps=-1"], "not a number"),
        (["--from=1", "--to=1"], "to itself"),
        (["--knob=enabled"], "not NAME=VALUE"),
        (["--knob=../x=1"], "not NAME=VALUE"),
        (["--what"], "usage"),
        (["--reason=boredom"], "no reason to move memory"),
        (["rest"], "unexpected argument"),
        (["--plan=/no/such/file"], "cannot read the plan"),
    ],
)
def test_movebench_refuses_wrong_options(movebench: str, words: list[str], message: str) -> None:
    found = subprocess.run([movebench, *words], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert message in found.stderr
    assert found.stdout == ""


def test_movebench_understands_every_line_of_every_plan(movebench: str, tmp_path: Path) -> None:
    """A node that no machine has: each line is understood, and fails before anything is moved."""
    size = Size(quick=True, cpus=2, node_mb=1152, gigantic_pages=1)
    named = [
        (e.name, cell)
        for e in EXPERIMENTS.values()
        for cell in e.cells(size)
        if not cell.load and not cell.scene
    ]
    virtual = PARALLEL.effort("virtual", quick=True)
    turns = [
        turn
        for effort in (EFFORT, virtual)
        for turn in plan.turns(named, ("vanilla", "pagehaul"), effort, (1021, 1022), 0)
    ]
    lines = [turn.line for turn in turns]
    found = subprocess.run(
        [movebench, "--plan", "-"],
        input="# a comment\n\n" + "\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    parsed = parse_lines(found.stdout, found.returncode, found.stderr, "")
    assert len(parsed) == len(lines)
    assert all(line["error"] and not line["ns"] for line in parsed)


def test_movebench_waits_for_its_turn(movebench: str, tmp_path: Path) -> None:
    words = [movebench, "--plan=-", f"--turns={tmp_path}"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write("--label=0 --from=1021 --to=1022\n" * 3)
        process.stdin.close()
        assert process.stderr.readline() == "movebench: ready\n"
        (tmp_path / "1").touch()
        assert json.loads(process.stdout.readline())["error"]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        (tmp_path / "abandoned").touch()
        assert process.wait(10) == 1
        assert process.stdout.read() == ""


def test_notes_of_results_have_no_paths(cache: Path) -> None:
    tally = Tally()
    for _ in range(2):
        tally.note(f"compile: cannot read {cache}/tree/vanilla/x, nor {REPO}/bench")
    assert tally.notes == ["compile: cannot read CACHE/tree/vanilla/x, nor CLONE/bench"]
