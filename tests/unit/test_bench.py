# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's plan and arithmetic, on a machine that is made up here."""

import json
import os
import shlex
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pagehaul import bench, cli, cprogs, machines, vm
from pagehaul.build import Kernel
from pagehaul.errors import PagehaulError
from pagehaul.experiments import EXPERIMENTS, Cell, Shape, Size, policy
from pagehaul.machines import Turn
from pagehaul.paths import REPO
from pagehaul.results import Results, Touches, load, parse
from pagehaul.tables import experiment_table


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

    def machines(self) -> tuple[str, ...]:
        here = ("parallel", "dies", "dma")
        counting = ("icount", "busy-icount", "fault-icount")
        return (*counting, "faults", *here) if len(self.only) > 1 else here

    def disposable(self) -> bool:
        return len(self.only) > 1

    def nodes(self) -> tuple[int, int]:
        return 0, 1

    def size(self, machine: str, quick: bool) -> Size:
        return Size(quick, 1 if machine in ("icount", "fault-icount") else 2, 1152, 1)

    def environment(self) -> dict[str, Any]:
        return {"machines": {}}

    def run(
        self,
        machine: str,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: Callable[[], None],
    ) -> list[tuple[str, dict[str, Any]]]:
        lines = [(turn.kernel, options(turn.line)) for turn in turns]
        self.boots.append(lines)
        measured = lines[self.lost_lines :]
        return [(kernel, self.measure(kernel, line)) for kernel, line in measured]

    def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
        if "kind" in line:
            return self.faults(kernel, line)
        size = line["folio-kb"] * 1024 * line["folios"]
        speed = 3 if line["knobs"].get("max_helpers", 0) == 1 else 2
        error = self.errors.get(line["folio-kb"])
        reps = 0 if error else line["reps"]
        reads = {"warm_ns": [5] * reps, "own_ns": [9] * reps, "read_ns": [700] * reps}
        remaps = {"first_ns": [1] * reps, "last_ns": [9] * reps, "away_ns": [8] * reps}
        return {
            "label": str(line["label"]),
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
        """Who helps does a quarter of the work; channels do all of the copying."""
        if line["knobs"].get("non_temporal"):
            return {"migrate_copy.bytes_caller": moved, "migrate_copy.bytes_nontemporal": moved}
        if line["knobs"].get("engines/dcbm/offloading"):
            return {"migrate_copy.bytes_engines": moved}
        return {"migrate_copy.helper_ns": moved // 8} if "max_helpers" in line["knobs"] else {}


def measure(model: Model, *names: str) -> Results:
    done: list[str] = []
    results = bench.measure(
        [EXPERIMENTS[name] for name in names],
        model,
        quick=True,
        on_part=lambda _, name: done.append(name),
    )
    assert done == [name for name in names if results.of(name)]
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
    results = bench.measure(
        [EXPERIMENTS["classic"]], model, quick=True, boots=5, on_part=lambda *_: None
    )
    assert len(model.boots) == 5
    effort = bench.EFFORTS["parallel", True]
    assert {len(row.gbps) for row in results.rows} == {5 * effort.rounds}


@pytest.mark.parametrize("text", ["0", "-1", "1001", "two", "1.5", "²"])
def test_no_number_of_boots(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "--boots", text])
    assert "is not a number from 1 to 1000" in capsys.readouterr().err


def test_all_quick_experiments_take_few_boots() -> None:
    model = Model()
    results = measure(model, *EXPERIMENTS)
    # Of both kernels each.
    assert len(model.boots) <= 8
    assert results.experiments() == list(EXPERIMENTS)
    # What is measured is a valid file.
    document = {
        "schema": 1,
        "environment": dict(results.environment),
        "rows": [asdict(row) for row in results.rows],
        "integrity": vars(results.integrity),
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
        ("pagehaul", 1, (("enabled", 1), ("max_helpers", 0), ("parallel_batches", 0))),
        ("pagehaul", 1, (("enabled", 1), ("max_helpers", 1), ("parallel_batches", 0))),
        ("pagehaul", 1, (("enabled", 1), ("max_helpers", 1), ("parallel_batches", 1))),
    }


def test_placements_are_set_by_name() -> None:
    model = Model()
    measure(model, "placement")
    knobs = [line["knobs"] for _, line in model.boots[0] if "placement" in line["knobs"]]
    assert {found["placement"] for found in knobs} == {"spread", "fill"}
    assert all((found["parallel_batches"], found["max_helpers"]) == (1, 1) for found in knobs)


def test_a_guest_with_two_dies_has_all_cpus_on_one_node(tmp_path: Path) -> None:
    guest = machines.Guests(tmp_path, {})._guest("dies", quick=True)
    assert guest.cpus >= 4
    assert guest.topology == f"sockets=1,dies=2,cores={guest.cpus // 2},threads=1"
    assert guest.node_cpus() == [range(guest.cpus)]
    assert guest.memory_only_nodes == 1


def test_rounds_go_through_the_methods_of_a_shape() -> None:
    cells = [("x", Cell(Shape(4, 64), "pagehaul", method)) for method in ("serial", "batch")]
    cells += [("x", Cell(Shape(64, 64), "pagehaul", method)) for method in ("serial", "batch")]
    cells += [("x", Cell(Shape(2048, 64), "pagehaul", method)) for method in ("serial", "batch")]
    effort = bench.Effort(boots=1, rounds=2, target_mb=1, min_reps=3, max_reps=9, timeout=1.0)
    turns = bench.turns(cells, ["pagehaul"], effort, (2, 5), 0)
    lines = [options(turn.line) for turn in turns]
    assert [line["label"] for line in lines] == [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5]
    # 1 MiB by 256 KiB is 4 times, in 2 rounds, there and back; so small ones warm up each time.
    assert [line["reps"] for line in lines[:4]] == [4, 4, 4, 4]
    # Folios of 64 KiB are faulted in anew instead of being moved back.
    assert [line["reps"] for line in lines[4:8]] == [2, 2, 2, 2]
    assert [line["warmups"] for line in lines[:4]] == [1, 1, 1, 1]
    # Those of 4 MB do so for each method once, and after a wait.
    assert [line["warmups"] for line in lines[4:8]] == [1, 1, 1, 0]
    # Large moves warm up once, when the memory is new.
    assert [line["warmups"] for line in lines[8:]] == [1, 0, 0, 0]
    assert (lines[0]["from"], lines[0]["to"]) == (2, 5)


def test_an_engine_is_known_before_its_moves_are_timed() -> None:
    cells = [("x", Cell(Shape(2048, 64), "pagehaul", method)) for method in ("batch", "hybrid")]
    effort = bench.Effort(boots=1, rounds=2, target_mb=1, min_reps=3, max_reps=9, timeout=1.0)
    turns = bench.turns(cells, ["pagehaul"], effort, (0, 1), 0)
    assert [options(turn.line)["warmups"] for turn in turns] == [1, 2, 0, 2]


def test_rows_hold_all_boots_and_their_ratio() -> None:
    effort = bench.EFFORTS["parallel", True]
    results = measure(Model(), "classic")
    (row,) = (r for r in results.rows if r.method == "parallel" and r.folio_kb == 2048)
    assert row.vs_vanilla == pytest.approx(1.5)
    assert row.instructions_per_page is None
    assert len(row.gbps) == effort.boots * effort.rounds
    assert row.counters["vmstat.pgmigrate_success"] == 2 * len(row.gbps)


def test_there_and_back_are_one_figure() -> None:
    class OneWayIsSlow(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            found["ns"] = [ns * (3 if n % 2 else 1) for n, ns in enumerate(found["ns"])]
            return found

    rows = {
        (row.folio_kb, row.kernel, row.method): row
        for row in measure(OneWayIsSlow(), "callers").rows
    }
    assert set(rows[2048, "vanilla", "serial"].gbps) == {1.0}
    # What is faulted in anew goes one way only.
    assert 2.0 in rows[64, "vanilla", "serial"].gbps


def test_what_is_seen_beside_moves_is_of_both_ways() -> None:
    class OneWayIsSlow(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            for name in ("first_ns", "last_ns", "away_ns"):
                if name in found:
                    found[name] = [ns * (3 if n % 2 else 1) for n, ns in enumerate(found[name])]
            if "touch" in line:
                found["touch_ns"] = [7 if n % 2 else 5 for n in range(line["reps"])]
                found["touches"] = [[2, 3], [7, 1]]
            return found

    for row in measure(OneWayIsSlow(), "first-folio").rows:
        assert row.remap is not None
        assert row.remap.moves == len(row.gbps)
        assert (row.remap.first_ns, row.remap.last_ns, row.remap.away_ns) == (2, 18, 16)
    for row in measure(OneWayIsSlow(), "stall").rows:
        assert row.touch is not None
        assert row.touch.moves == len(row.gbps)
        assert (row.touch.p50_ns, row.touch.max_ns) == (7, 7)
        # Of each turn there are 4.
        effort = bench.EFFORTS["parallel", True]
        turns = effort.boots * effort.rounds
        assert row.touch.all == Touches(4 * turns, 2, 7)


def test_non_temporal_reads_before_and_after_moves() -> None:
    class OneWayIsCold(Model):
        def measure(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
            found = super().measure(kernel, line)
            found["read_ns"] = [900 if n % 2 else 700 for n in range(line["reps"])]
            return found

    results = measure(OneWayIsCold(), "non-temporal")
    assert {(row.reads.warm_ns, row.reads.own_ns, row.reads.moved_ns)
            for row in results.rows if row.reads} == {(5, 9, 800)}  # fmt: skip
    assert all(row.reads and row.reads.moves == len(row.gbps) for row in results.rows)
    table = experiment_table(results, "non-temporal")
    assert {cells[1]: cells[4] for cells in table.rows} == {
        "vanilla": "0%",
        "batch": "0%",
        "batch, non_temporal always": "100%",
        "2 CPUs": "0%",
        "2 CPUs, non_temporal always": "100%",
    }


def test_channels_never_copy_more_than_everything() -> None:
    table = experiment_table(measure(Model(), "cpu-freed"), "cpu-freed")
    assert {cells[3] for cells in table.rows} == {"0%", "100%"}


def test_instructions_are_nanoseconds_of_one_page() -> None:
    results = measure(Model(), "path-length")
    by_threads = {(row.threads, row.instructions_per_page) for row in results.rows}
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
    asked = {line["knobs"].get("batch_pages") for boot in model.boots for _, line in boot}
    assert asked == {None, 8192}
    assert {(row.remap.first_ns, row.remap.last_ns) for row in results.rows if row.remap} == {
        (1, 9)
    }
    # What the kernel's default is, and what it does not allow, is not tried.
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
    assert {(row.condition, row.hog is None) for row in results.rows} == {
        ("idle", True),
        ("busy", False),
    }
    row, high = (
        r for r in results.rows if (r.condition, r.method, r.folio_kb) == ("busy", "parallel", 2048)
    )
    assert (dict(row.settings), dict(high.settings)) == ({}, {"priority": "high"})
    assert row.vs_vanilla == pytest.approx(1.5)
    assert row.hog is not None
    ns = row.bytes // 3
    assert (row.hog.share, row.hog.lost_ns) == pytest.approx((0.75, ns * 2 / 4), rel=1e-6)
    assert row.hog.moves == len(row.gbps) >= 5
    # Idle cells have no hogs, and busy ones have one on each CPU.
    assert {line.get("hogs") for boot in model.boots for _, line in boot} == {None, 2}


def test_counted_busy_cells_are_all_busy_and_times_of_several_cpus() -> None:
    model = Model()
    results = measure(model, "busy-counted")
    assert {(row.condition, row.hog is None) for row in results.rows} == {("busy", False)}
    # Others use the clock as well.
    assert {row.instructions_per_page for row in results.rows} == {None}
    assert {line["hogs"] for boot in model.boots for _, line in boot} == {2}


def test_channels_are_asked_for_before_they_are_used() -> None:
    model = Model()
    results = measure(model, "hybrid")
    settings = [line["knobs"] for _, line in model.boots[0] if "max_helpers" in line["knobs"]]
    engine = "engines/dcbm/"
    used = {
        tuple((name.removeprefix(engine), value) for name, value in knobs.items() if engine in name)
        for knobs in settings
    }
    # In this order; the CPU alone needs none of them.
    assert used == {
        (),
        (("channels", 8), ("exclusive", 1), ("min_kb", 0), ("offloading", 1)),
        (("channels", 8), ("exclusive", 0), ("min_kb", 0), ("offloading", 1)),
    }
    assert {(row.method, row.channels) for row in results.rows} == {
        ("serial", 0),
        ("batch", 0),
        ("dma", 8),
        ("hybrid", 8),
    }


def test_channels_that_are_not_there_leave_their_cells_out() -> None:
    full = EXPERIMENTS["dma-folio-size"].cells(Size(False, 2, 4096))
    assert {cell.channels for cell in full} == {0, 1, 2, 4, 8, 16}
    assert all(cell.optional == bool(cell.channels) for cell in full)


def test_helpers_cpu_time_counts() -> None:
    results = measure(Model(), "cpu-freed")
    times = {row.method: row.cpu_ns_per_page for row in results.rows}
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


def test_modules_are_loaded_before_channels_are_asked_for(tmp_path: Path) -> None:
    kernel = Kernel("pagehaul", tmp_path / "a tree", tmp_path, tmp_path, "6.12")
    shell, option, script = machines._with_channels(
        kernel, vm.Guest(cpus=6), ["movebench", "--plan=-"]
    )
    assert (shell, option) == ("sh", "-c")
    load, _, rest = script.partition(" && ")
    assert shlex.split(load)[:2] == ["insmod", f"{tmp_path}/a tree/drivers/dma/softdma.ko"]
    assert "cpus=3-5" in shlex.split(load)
    assert rest.endswith("dcbm.ko' && exec movebench --plan=-")


def test_the_cpus_of_a_guests_dma_engine_are_isolated(tmp_path: Path) -> None:
    guests = machines.Guests(tmp_path, {})
    plain, dma = (guests._guest(machine, True) for machine in ("parallel", "dma"))
    assert dma.append == (*plain.append, f"isolcpus=domain,{dma.cpus // 2}-{dma.cpus - 1}")
    assert guests.size("dma", True) == guests.size("parallel", True)


def test_turns_are_taken_anew_where_the_emulation_breaks_a_guest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guests = machines.Guests(tmp_path, {})
    broken = 2
    calls: list[str] = []
    told: list[int] = []

    def measure(
        machine: str, _quick: bool, _turns: object, _timeout: float, on_line: Callable[[], None]
    ) -> list[tuple[str, dict[str, Any]]]:
        calls.append(machine)
        on_line()
        if len(calls) <= broken:
            raise vm.EmulationBroke("int3", began=True)
        on_line()
        return [("vanilla", {})]

    monkeypatch.setattr(guests, "_measure", measure)
    found = guests.run("dma", True, [], 1.0, lambda: told.append(len(calls)))
    assert found == [("vanilla", {})]
    # Each line is told once, though the first came three times.
    assert (len(calls), told) == (3, [1, 3])
    calls.clear()
    broken = 3
    with pytest.raises(vm.EmulationBroke):
        guests.run("dma", True, [], 1.0, lambda: None)
    assert len(calls) == 3


def test_settings_are_knobs_of_pagehaul_only() -> None:
    settings = {"priority": "high"}
    ours = Cell(Shape(4, 64), "pagehaul", "parallel", 2, settings=settings)
    assert ours.knobs["priority"] == "high"
    assert Cell(Shape(4, 64), "vanilla", "serial", settings=settings).knobs == {}


def test_policy_forces_what_is_fixed_and_lets_the_kernel_choose_beside_it() -> None:
    model = Model()
    results = measure(model, "policy")
    pagehaul = [line["knobs"] for kernel, line in model.boots[0] if kernel == "pagehaul"]
    names = ("max_helpers", "parallel_batches", "vm.mt_page_copy", "min_helper_kb", "chunk_kb")
    forced = {(1, ways, 1, 0, chunk) for ways in (0, 1) for chunk in (16, 64, 128)}
    assert {tuple(knobs.get(name) for name in names) for knobs in pagehaul} == forced | {
        (None, None, None, None, None),
        (0, 0, None, None, None),
        (1, 1, 2, "auto", 128),
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
    assert {line[-1] for line in table.rows[1:]} == {"1.00 (2 CPUs, copy, forced)"}
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
    assert policy.forced(shape, threads)["chunk_kb"] == str(chunk_kb)


def test_packages_of_what_is_measured_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(bench.host, "require", lambda *names: asked.extend(names))
    monkeypatch.setattr(cprogs, "build_static", lambda _: tmp_path)
    monkeypatch.setattr(bench, "Host", lambda _: Model())
    for names, packages in ((["classic"], []), (["busy"], ["stress-ng"])):
        args = Namespace(quick=True, boots=None, experiment=names, json=None, html=None, host=True)
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
        ("demotion", 0, 1),
        ("promotion", 1, 0),
        ("balancing", 1, 0),
        ("cpuset", 0, 1),
        ("offlining", 1, 0),
        ("compaction", 1, 0),
    }
    for row in results.rows:
        pages = row.bytes // 4096
        assert row.pages_moved == (pages if row.kernel == "vanilla" else pages // 2)
        # 3 bytes a nanosecond by 2, for half of them.
        expected = 1.0 if row.kernel == "vanilla" else 0.75
        assert row.vs_vanilla == pytest.approx(expected, rel=1e-4)
    # Nobody's machine loses its memory to it.
    results = measure(Model(only=("pagehaul",)), "classic", "reasons")
    assert results.experiments() == ["classic"]
    assert "reasons: left out" in results.environment["notes"][0]
    # What a machine cannot do is left out, and said.
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
    for number in (5, 25):
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
    monkeypatch.setattr(bench, "Host", lambda _: Model(mismatches=mismatches))
    args = Namespace(
        quick=True,
        boots=None,
        experiment=["classic"],
        json=tmp_path / "r.json",
        html=None,
        host=True,
    )
    assert bench.run(args) == code
    # 2 shapes by 3 methods, in every round and boot.
    effort = bench.EFFORTS["parallel", True]
    expected = 2 * 3 * effort.rounds * effort.boots * mismatches
    assert load(tmp_path / "r.json").integrity.mismatches == expected


def test_a_wrong_directory_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    args = Namespace(
        quick=True, experiment=None, json=tmp_path / "no" / "r.json", html=None, host=False
    )
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
    assert max(cell.shape.bytes for cell in full) == 2 << 30


def test_hosts_with_one_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machines, "nodes_with_memory", lambda: [0])
    with pytest.raises(PagehaulError, match="needs two NUMA nodes with memory"):
        machines.Host(Path("movebench"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PagehaulError, match="needs root"):
        machines.Host(Path("movebench"))


def test_output_of_a_program_that_died_is_not_taken() -> None:
    assert machines.parse_lines('{"a": 1}\n', 1, "", "") == [{"a": 1}]
    with pytest.raises(PagehaulError, match="exit code 139"):
        machines.parse_lines('{"a": 1}\n', 139, "", "")
    with pytest.raises(PagehaulError, match="not JSON"):
        machines.parse_lines("hello\n", 0, "", "")


def begun(referee: machines.Referee, kernel: str) -> list[str]:
    return sorted(path.name for path in referee.directory(kernel).iterdir())


def test_a_turn_begins_when_all_have_booted_and_the_last_has_ended(tmp_path: Path) -> None:
    order = [
        Turn("vanilla", "a"),
        Turn("pagehaul", "b"),
        Turn("pagehaul", "c"),
        Turn("vanilla", ""),
    ]
    referee = machines.Referee(tmp_path, order, in_turns=True)
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


def test_guests_that_count_instructions_do_not_wait(tmp_path: Path) -> None:
    order = [Turn("vanilla", "a"), Turn("pagehaul", "b"), Turn("vanilla", "c")]
    referee = machines.Referee(tmp_path, order, in_turns=False)
    assert (begun(referee, "vanilla"), begun(referee, "pagehaul")) == (["1", "2"], ["1"])


@pytest.fixture(scope="module")
def movebench() -> str:
    return str(cprogs.build_static(REPO / "bench") / "movebench")


def test_other_sources_have_programs_of_their_own(tmp_path: Path, cache: Path) -> None:
    for clone in ("a", "b"):
        directory = tmp_path / clone / "says"
        directory.mkdir(parents=True)
        source = directory / "says.sh"
        source.write_text(f"echo {clone}\n")
        # As old as any: make sees no difference.
        os.utime(source, (1, 1))
        (directory / "Makefile").write_text("$(O)/says: says.sh\n\tcp $< $@\n")
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
    # Who is due when it is over need not wait.
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
        (e.name, cell) for e in EXPERIMENTS.values() for cell in e.cells(size) if not cell.load
    ]
    effort = bench.EFFORTS["parallel", True]
    turns = bench.turns(named, ("vanilla", "pagehaul"), effort, (1021, 1022), 0)
    lines = [turn.line for turn in turns]
    found = subprocess.run(
        [movebench, "--plan", "-"],
        input="# a comment\n\n" + "\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    parsed = machines.parse_lines(found.stdout, found.returncode, found.stderr, "")
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
