# SPDX-License-Identifier: GPL-2.0-only
"""Tests of faultbench and of the tables of what it measures."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_bench import Model, measure

from pagehaul.bench import kept_compound, kernbench, means, plan, published, tables
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import Size
from pagehaul.bench.machines.kinds import FAULTING
from pagehaul.bench.machines.places import parse_lines
from pagehaul.bench.views import fault_figures
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs
from pagehaul.kernel.built import Kernel
from pagehaul.paths import REPO


@pytest.fixture(scope="module")
def faultbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGEHAUL_CACHE", str(tmp_path_factory.mktemp("cache")))
        return str(cprogs.build_static(REPO / "bench") / "faultbench")


class Kernels(Model):
    """Faults need a tenth less time where compound pages are kept."""

    def faults(self, kernel: str, line: dict[str, Any]) -> dict[str, Any]:
        found = super().faults(kernel, line)
        if kernel == "pcp-compound":
            for name in ("ns", "cpu_ns"):
                found[name] = [ns * 9 // 10 for ns in found[name]]
        return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind=thrash"], "not a kind"),
        (["--threads=0"], "0 is not a number from 1 to"),
        (["--kind=compile"], "needs --commands"),
        (["--commands=/dev/null"], "needs --commands"),
        (["--threads=3", "--mb=4"], "2 MiB"),
        (["--plan=/no/such/file"], "cannot read the plan"),
        (["rest"], "unexpected argument"),
    ],
)
def test_faultbench_refuses_wrong_options(faultbench: str, words: list[str], message: str) -> None:
    found = subprocess.run([faultbench, *words], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert message in found.stderr
    assert found.stdout == ""


def test_faultbench_faults_in_and_verifies(faultbench: str) -> None:
    words = [faultbench, "--kind=pft", "--mb=4", "--threads=2", "--reps=3", "--warmups=0"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = parse_lines(found.stdout, 0, "", "")
    assert line["moved_bytes"] == [4 << 20] * 3
    assert line["bytes_verified"] == 3 * 1024 * 24
    assert line["mismatches"] == 0
    assert all(line["ns"])


def test_faultbench_times_commands_and_tells_of_one_that_fails(
    faultbench: str, tmp_path: Path
) -> None:
    commands = tmp_path / "commands"
    words = [faultbench, "--kind=compile", f"--commands={commands}", "--reps=2", "--warmups=0"]
    commands.write_text("sleep 0.05\ntrue\n")
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = parse_lines(found.stdout, 0, "", "")
    assert all(ns >= 50_000_000 for ns in line["ns"])
    assert line["moved_bytes"] == [2 * 4096] * 2
    commands.write_text("exit 3\n")
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    (line,) = parse_lines(found.stdout, 1, "", "")
    assert line["error"] == "a command failed: exit status 3"


def test_faultbench_understands_the_lines_of_the_plan(faultbench: str) -> None:
    """A node that no machine has, and a switch that no other kernel has."""
    cells = EXPERIMENTS["compaction-latency"].cells(Size(True, 2, 1152))
    named = [("compaction-latency", cell) for cell in cells]
    effort = FAULTING.effort("host", quick=True)
    turns = plan.turns(named, ("judge",), effort, (1021, 1022), 0)
    found = subprocess.run(
        [faultbench, "--plan=-"],
        input="\n".join(turn.line for turn in turns),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    lines = parse_lines(found.stdout, 1, found.stderr, "")
    assert len(lines) == len(turns) == len(cells) * effort.rounds
    assert all(line["error"] and not line["ns"] for line in lines)


def test_what_needs_another_kernel_or_long_is_measured_when_it_is_named() -> None:
    assert {
        "compaction-latency",
        "pft",
        "kernbench",
        "pft-path-length",
        "busy-counted",
        "busy-pool",
        "judge",
        "parts",
        "workload-redis-drain",
        "workload-redis-neighbour",
        "workload-redis-cpuset",
        "workload-redis-offlining",
        "workload-memcached-drain",
        "workload-threads-drain",
        "workload-postgres-drain",
        "workload-postgres-huge",
        "workload-threads-demotion",
        "workload-threads-promotion",
        "workload-redis-compaction",
        "workload-gups",
        "workload-bfs",
        "workload-hotset",
        "workload-redis-tiers",
        "workload-two-programs",
    } == {name for name, experiment in EXPERIMENTS.items() if experiment.on_request}
    assert all(e.on_request for e in EXPERIMENTS.values() if e.kernels)


def test_latencies_stand_beside_published_ones() -> None:
    results = measure(Model(only=("vanilla", "pagehaul", "judge")), "compaction-latency")
    table = tables.experiment_table(results, "compaction-latency")
    lines = {line[:2]: line[2:] for line in table.rows}
    first = lines["mlocked pages in the way", "fault-both-1"]
    assert first[0].startswith("2 ±")
    assert "-50.00%" in first[2]
    assert first[3] == "50%"
    assert first[4:] == ("1,131", "1,113 (-1.65%)")
    # Not measured with 2 CPUs, but published.
    assert lines["mapped pages in the way", "fault-both-32"][:4] == ("", "", "", "")


def test_kept_compound_pages_are_compared_with_the_same_kernel() -> None:
    model = Kernels(only=("vanilla", "pagehaul", "pcp-compound"))
    results = measure(model, "pft-path-length", "pft", "kernbench")
    pft = tables.experiment_table(results, "pft")
    lines = {line[:2]: line[2:] for line in pft.rows}
    line = lines["2MB-32kB-16kB", "faults/cpu-1"]
    assert "*+11.11%*" in line[1]
    assert line[2:] == ("4,268,816", "4,270,576 (+0.04%)")
    kern = {line[:2]: line[2:] for line in tables.experiment_table(results, "kernbench").rows}
    assert kern["16kB", "syst"][3] == "1,837.13 (+2.98%)"
    path = tables.experiment_table(results, "pft-path-length")
    assert {line[3] for line in path.rows} == {"-10.00%"}


def test_a_change_is_marked_when_it_is_more_than_chance() -> None:
    assert fault_figures.marked([10, 11, 10, 11], [20, 21, 20, 21]) == "*+95.24%*"
    assert fault_figures.marked([10, 20, 10, 20], [11, 20, 12, 20]) == "+5.00%"
    assert not means.differ([1.0], [2.0])
    assert means.differ([1.0, 1.0], [2.0, 2.0])
    assert not means.differ([1.0, 1.0], [1.0, 1.0])
    # 2.776 is Student's t for 4 degrees of freedom.
    assert means.interval([1, 2, 3, 4, 5]) == pytest.approx(2.776 * 2.5**0.5 / 5**0.5)
    assert means.t95(11.5) == means.t95(10)


def test_published_figures_are_found() -> None:
    assert published.by_fault_latency()[24] == (14911.65, 11619.55)
    assert set(published.by_fault_latency()) == {1, 3, 5, 7, 12, 18, 24, 30, 32}
    for sizes in kept_compound.SIZES:
        assert len(published.by_kept_compound(f"PFT, {sizes}")) == 28
    assert published.by_kept_compound("kernbench, 16kB")["syst-24"] == (1784.03, 1837.13)


def test_commands_of_the_build_are_taken_over(tmp_path: Path) -> None:
    kernel = Kernel("pagehaul", tmp_path, tmp_path / "i", tmp_path / "c", "6.12")
    (tmp_path / "lib").mkdir()
    notes = tmp_path / "lib" / ".sort.o.cmd"
    with pytest.raises(PagehaulError, match="is it built"):
        kernbench.command(kernel.tree, "lib/sort.c")
    notes.write_text(
        "savedcmd_lib/sort.o := ccache gcc -Wp,-MMD,lib/.sort.o.d -O2 "
        "-DKBUILD_BASENAME='\"sort\"' -c -o lib/sort.o lib/sort.c ; objtool lib/sort.o\n\n"
        "source_lib/sort.o := lib/sort.c\n"
    )
    assert kernbench.command(kernel.tree, "lib/sort.c") == (
        f"cd {tmp_path} && gcc -O2 -DKBUILD_BASENAME='\"sort\"' -c -o /dev/null lib/sort.c"
    )
    notes.write_text("nothing\n")
    with pytest.raises(PagehaulError, match="does not begin"):
        kernbench.command(kernel.tree, "lib/sort.c")
