# SPDX-License-Identifier: GPL-2.0-only
"""Servers at work while memory moves: cells, what is made of their lines, and how it is told."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servings import served

from pagehaul.bench import serving
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import Cell, Scene, Shape, Size
from pagehaul.bench.collect import Tally, collect, row_of
from pagehaul.bench.machines.kinds import SERVING
from pagehaul.bench.machines.places import Place, parse_lines
from pagehaul.bench.measure import Observed
from pagehaul.bench.measures.serving import LATENCY, MEASURE, TIME, Phase
from pagehaul.bench.plan import turns
from pagehaul.bench.row import Integrity, Results, Row, compare
from pagehaul.bench.tables import experiment_table
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs
from pagehaul.paths import REPO
from pagehaul.report import plots, stutter

SIZE = Size(True, 16, 896, model="plain")
PLACE = Place(SERVING, 16, "virtual", "plain")


def rows_of(name: str, lines: list[dict[str, Any]]) -> list[Row]:
    cells = EXPERIMENTS[name].cells(SIZE)
    rows = []
    for cell, printed in zip(cells, lines, strict=False):
        observed = Observed(cell)
        collect(printed, name, observed, Tally())
        row = row_of(name, observed, PLACE)
        assert row is not None
        rows.append(row)
    return list(compare(rows))


def drained() -> list[Row]:
    slow = served(400, [[20_000, 970], [600_000, 28], [1_000_000, 2]])
    fast = served(40, [[20_000, 900], [500_000, 100]])
    return rows_of(
        "workload-redis-drain", [slow, served(160, [[30_000, 10]]), slow, fast, fast, fast]
    )


def test_a_drain_is_compared_with_migratepages() -> None:
    vanilla, callers, off, ours, unchanged, half = drained()
    assert vanilla.vs_vanilla == off.vs_vanilla == 1.0
    assert (callers.vs_vanilla, ours.vs_vanilla) == (2.5, 10.0)
    assert (ours.settings, unchanged.settings) == ({}, {"by": "migratepages"})
    assert half.settings == {"max_helpers": "8"}
    assert len({(row.kernel, row.method, str(row.settings)) for row in drained()}) == 6


def test_latencies_are_those_of_all_requests_of_the_scene() -> None:
    vanilla, _, _, ours, *_ = drained()
    seen, fast = MEASURE.of(vanilla), MEASURE.of(ours)
    assert seen is not None and fast is not None
    assert seen.during == Phase(1000, 10_000.0, 20_000, 600_000, 1_000_000, 1_000_005)
    assert fast.during == Phase(1000, 10_000.0, 20_000, 500_000, 500_000, 500_005)
    assert seen.before == Phase(2000, 20_000.0, 20_000, 20_000, 20_000, 20_100)
    assert (seen.helper_ns, seen.server_ns, seen.left_bytes) == (7e6, 5e6, 8192.0)
    # Before it they wait for half of a percent of the time.
    assert (seen.waited_ns, seen.waited_else_ns, fast.waited_else_ns) == (4e6, 2e6, 2e5)


def test_the_table_tells_who_moved_and_what_clients_saw() -> None:
    results = Results({}, tuple(drained()), Integrity(1, 0, 0))
    table = experiment_table(results, "workload-redis-drain")
    by = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [each["moved by"] for each in by] == [
        "migratepages",
        "plain callers",
        "migratepages",
        "pagehaul move",
        "migratepages",
        "pagehaul move",
    ]
    assert by[5]["method"] == "16 CPUs, max_helpers 8"
    assert by[3]["speed"] == "10.00x" and by[3]["99.9%"] == "500 (0.50)"
    assert by[0]["1000 requests/s"] == "20.0 / 10.0 / 20.0 / 8.0"
    assert by[3]["CPU, ms"] == "40 + 7 + 5 + 6"


def test_latency_is_drawn_over_time_for_all_kernels_in_one() -> None:
    text = plots.plot(Results({}, tuple(drained()), Integrity(1, 0, 0)), "workload-redis-drain")
    panel = text[text.index("Longest latency of each 2 ms (ms), closed loop") :]
    assert len(re.findall(r'<line class="(?:dash|solid)"', panel)) == 6, "two slots each"
    assert "ms from the start of the scene on" in panel
    assert ">-0<" not in panel and ">0<" in panel
    assert ">off</text>" in panel


def test_costs_are_better_if_they_are_lower() -> None:
    vanilla, _, _, ours, *_ = drained()
    latency, time = LATENCY.of(ours, vanilla), TIME.of(ours, vanilla)
    assert latency is not None and latency.ratio == 0.5
    # In as long a window a tenth as many: those of the fast scene alone, as made up here.
    assert time is not None and time.ratio == 10.0
    assert LATENCY.of(replace(ours, seen={}), vanilla) is None
    assert TIME.of(ours, replace(vanilla, seen={})) is None


def test_the_picture_of_both_kernels() -> None:
    text = stutter.picture(Results({}, tuple(drained()), Integrity(1, 0, 0)))
    assert "unmodified kernel: 400 ms" in text
    assert "Pagehaul: 40 ms, 10.0 times as fast" in text
    # Two slots of each kernel, of which the second one is long.
    outlines = re.findall(r'class="(?:plain|ours)" d="([^"]+)"', text)
    assert [each.count("M") for each in outlines] == [2, 2]
    with pytest.raises(PagehaulError, match="no workload-redis-drain"):
        stutter.picture(Results({}, tuple(drained()[1:]), Integrity(1, 0, 0)))


def test_the_picture_leaves_out_what_its_axis_does_not_reach() -> None:
    timeline = [[at, 40, 20_000, 20_100] for at in (-41_000, -1000, 1000, 501_000)]
    rows = rows_of("workload-redis-drain", [served(400, [[20_000, 10]], timeline=timeline)] * 5)
    text = stutter.picture(Results({}, tuple(rows), Integrity(1, 0, 0)))
    outlines = re.findall(r'class="(?:plain|ours)" d="([^"]+)"', text)
    assert [each.count("M") for each in outlines] == [2, 2]


def test_nothing_is_made_of_a_scene_that_nobody_saw() -> None:
    cell = EXPERIMENTS["workload-redis-drain"].cells(SIZE)[0]
    assert MEASURE.collect(Observed(cell)) is None
    seen = MEASURE.of(drained()[0])
    assert seen is not None and MEASURE.check is not None
    with pytest.raises(PagehaulError, match="one figure of each kind for each slot"):
        MEASURE.check(replace(seen, at_us=(1.0,)), "serving")


def test_cells_have_what_workbench_is_told() -> None:
    cells = EXPERIMENTS["workload-redis-neighbour"].cells(SIZE)
    effort = SERVING.effort("virtual", quick=True)
    order = turns([("n", cell) for cell in cells], ("vanilla", "pagehaul"), effort, (0, 1), 0)
    lines = [turn.line for turn in order if turn.kernel == "pagehaul"]
    assert all("--scene=neighbour" in each for each in lines)
    helped = [each for each in lines if "--knob=max_helpers=15" in each]
    assert len(helped) == 2 * len(serving.LOOPS)
    ways = ["--way=move", "--way=migratepages"]
    assert [way for each in helped for way in ways if way in each] == 2 * ways
    rates = ["--rate=0", f"--rate={serving.LOOPS['open loop']}"]
    assert [rate in each for rate, each in zip(rates, helped[::2], strict=True)] == [True, True]
    own = [turn.line for turn in order if "--way=callers" in turn.line]
    assert [number in each for each in own for number in ("--callers=4", "--callers=16")] == [
        *(True, False, False, True) * 2
    ]


@pytest.mark.parametrize(("service", "callers"), [("redis", 4), ("postgres", 8)])
def test_move_has_as_many_callers_as_the_tool(service: str, callers: int) -> None:
    cells = EXPERIMENTS[f"workload-{service}-drain"].cells(SIZE)
    by_move = [cell.scene.callers for cell in cells if cell.scene and cell.scene.way == "move"]
    assert by_move == [callers] * 2 * len(serving.LOOPS)
    beside = EXPERIMENTS["workload-redis-neighbour"].cells(SIZE)
    assert {cell.scene.callers for cell in beside if cell.scene and cell.scene.way == "move"} == {4}


def test_services_that_share_their_memory_are_known() -> None:
    programs = [path.read_text() for path in (Path(__file__).parents[2] / "bench").glob("*.c")]
    shared = {
        name
        for text in programs
        if ".shared = true" in text
        for name in re.findall(r'\.name = "(\w+)"', text)
    }
    assert shared == set(serving.SHARED)


def test_each_scene_is_within_its_nodes() -> None:
    for name in (name for name in EXPERIMENTS if name.startswith("workload-")):
        node_mb = EXPERIMENTS[name].machine.memory_mb // 2
        for cell in EXPERIMENTS[name].cells(SIZE):
            assert cell.scene is not None
            # Values have keys, and so has the node a kernel and an initramfs.
            of_values = 4 if cell.scene.service == "postgres" else 1.2
            assert cell.scene.mb * of_values + cell.scene.neighbour_mb + 256 < node_mb


@pytest.fixture(scope="module")
def workbench() -> Path:
    return cprogs.build_static(REPO / "bench") / "workbench"


def test_workbench_knows_what_a_plan_says(workbench: Path, tmp_path: Path) -> None:
    cell = Cell(Shape(4, 1), "vanilla", "serial", scene=Scene("drain", "redis", "move", 1))
    effort = SERVING.effort("virtual", quick=True)
    order = turns([("n", cell)], ("vanilla",), effort, (0, 1), 0)
    plan = order[0].line.replace("--service=redis", "--service=memcached")
    # A root directory without such a program: there is nothing to serve.
    shutil.copy(workbench, tmp_path)
    # Below a root directory of its own root may not make user namespaces.
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *as_root, f"--root={tmp_path}", "/workbench", "--plan", "-"]
    found = subprocess.run(command, input=f"{plan}\n", capture_output=True, text=True, check=False)
    (told,) = parse_lines(found.stdout, found.returncode, found.stderr, "")
    assert found.returncode == 1
    assert told["error"] and not told["ns"] and told["label"] == "0"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--scene=none"], "not known: none"),
        (["--value-bytes=4001"], "words of 8 bytes"),
        (["--callers=65"], "not a number from 1 to 64"),
        (["--knob=none"], "not NAME=VALUE"),
    ],
)
def test_workbench_refuses_what_it_cannot_do(workbench: Path, words: list[str], why: str) -> None:
    found = subprocess.run([workbench, *words], capture_output=True, text=True, check=False)
    assert found.returncode == 2 and why in found.stderr and not found.stdout


def test_workbench_has_help(workbench: Path) -> None:
    found = subprocess.run([workbench, "--help"], capture_output=True, text=True, check=True)
    assert "neighbour: that of a" in found.stdout
    with pytest.raises(json.JSONDecodeError):
        json.loads(found.stdout)
