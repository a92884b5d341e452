# SPDX-License-Identifier: GPL-2.0-only
"""Published tables and open questions that had no cells: table 2a, the pool, helpers by node."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rows import seeing
from test_bench import Virtual, measure, options
from test_verdict import cell, ran, vanilla

from pagehaul.bench import beside, plan, published
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import MTCOPY, Cell, Shape, Size
from pagehaul.bench.experiments.busy_pool import COPIES, HIGH
from pagehaul.bench.labels import column_label, shared_column_of
from pagehaul.bench.machines import pool, real
from pagehaul.bench.machines.kinds import DMA, POOL
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.tables import experiment_table, published_table
from pagehaul.guest.machine import Guest
from pagehaul.kernel.built import Kernel
from pagehaul.paths import REPO
from pagehaul.report import verdict

ENOUGH_MB = 17 << 10


def effort_line(cell: Cell) -> dict[str, Any]:
    """A line of the plan for a cell, between the nodes 3 and 7."""
    effort = POOL.effort("virtual", quick=True)
    return options(plan.plan_line(0, cell, effort, 2, 1, (3, 7)))


def test_one_thread_moves_as_many_huge_folios_as_were_published() -> None:
    figures = published.by_huge_folio_count("CPU, 1 thread")
    assert (len(figures), figures[1], figures[8192]) == (8, 7.56, 10.84)
    assert published.by_huge_folio_count("DMA, 1 channel")[8192] == 12.03
    full = EXPERIMENTS["folio-count"].cells(Size(False, 4, ENOUGH_MB))
    for method, threads in (("batch", 1), ("threads", 2), ("parallel", 4)):
        of_method = [each for each in full if (each.method, each.threads) == (method, threads)]
        assert set(figures) <= {e.shape.folios for e in of_method if e.shape.folio_kb == 2048}
    # Nobody has published more of a busy machine.
    busy = EXPERIMENTS["busy"].cells(Size(False, 4, ENOUGH_MB))
    assert max(each.shape.folios for each in busy) == 1024


def test_table_2a_stands_beside_what_one_cpu_moves() -> None:
    rows = [vanilla(shape=(2048, 8192)), cell("batch", 3.0, shape=(2048, 8192))]
    rows += [vanilla(shape=(64, 1024)), cell("batch", 3.0, shape=(64, 1024))]
    table = published_table(ran(*rows), "folio-count")
    assert table is not None
    largest = [line for line in table.rows if line[0] == "2 MB x 8,192"]
    assert [line[:3] for line in largest] == [
        ("2 MB x 8,192", "here", "1.50x"),
        ("2 MB x 8,192", "published, GB/s", "10.84"),
    ]
    assert largest[1][3:] == ("",) * (len(table.header) - 3)
    # Of 64 KB there are none.
    assert [line for line in table.rows if "64 KB" in line[0] and "GB/s" in line[1]] == []
    assert "Garg, 2025" in table.caption and "Yan, 2025" in table.caption


def test_a_pool_copies_beside_hogs_with_both_priorities() -> None:
    model = Virtual(only=("vanilla", "pagehaul"))
    results = measure(model, "busy-pool")
    assert {(row.condition, row.kernel, row.method) for row in results.rows} == {
        ("busy", "vanilla", "serial"),
        ("busy", "pagehaul", "pool"),
    }
    assert {(row.cpus, row.threads) for row in results.rows if row.method == "pool"} == {(4, 4)}
    assert {place.kind for _, place in model.order} == {POOL}
    ours = [line["knobs"] for boot in model.boots for _, line in boot if line["knobs"]]
    engine = {"threads": 4, "offloading": 1}
    pooled = {f"{MTCOPY}/{name}": value for name, value in engine.items()}
    # No other CPU helps, nor takes pieces.
    pooled |= {"enabled": 1, "max_helpers": 0, "debug.parallel_batches": 0}
    found = {(each.pop("vm.mt_page_copy"), each.pop("nice.mtcopy", "0")) for each in ours}
    assert {(int(mt), str(nice)) for mt, nice in found} == {
        (mt, nice) for mt in (0, 2) for nice in ("0", "-20")
    }
    assert all(each == pooled for each in ours)
    full = EXPERIMENTS["busy-pool"].cells(Size(False, 6, ENOUGH_MB))
    assert {each.threads for each in full if each.method == "pool"} == {1, 2, 4, 6}
    assert {each.asks["hog"] for each in full} == {6}


def pooled() -> Any:
    hog = Hog(3, 0.9, 5e6)
    what: dict[str, Any] = {
        "experiment": "busy-pool",
        "condition": "busy",
        "shape": (64, 1024),
        "cpus": 4,
    }
    rows = [vanilla(**what)]
    what |= {"kernel": "pagehaul", "threads": 4}
    plain: dict[str, str] = {}
    for settings, gbps in ((plain, 1.0), (COPIES, 2.0)):
        rows.append(cell("pool", gbps, settings=settings, **what))
        rows.append(cell("pool", gbps + 2, settings={**settings, **HIGH}, **what))
    return ran(*(seeing(row, hog=hog) for row in rows))


def test_a_pool_stands_beside_both_published_workqueues() -> None:
    table = published_table(pooled(), "busy-pool")
    assert table is not None
    fourth = table.header.index("4 thr.")
    told = [(*line[:3], line[fourth]) for line in table.rows if line[0] == "64 KB x 1,024"]
    assert told == [
        ("64 KB x 1,024", "normal", "here, as published", "0.50x"),
        ("64 KB x 1,024", "normal", "here, the caller too", "1.00x"),
        ("64 KB x 1,024", "normal", "published", beside.ratio(6.52 / 7.88)),
        ("64 KB x 1,024", "high", "here, as published", "1.50x"),
        ("64 KB x 1,024", "high", "here, the caller too", "2.00x"),
        ("64 KB x 1,024", "high", "published", beside.ratio(17.09 / 7.88)),
    ]


def test_a_pool_of_any_size_has_its_column() -> None:
    row = cell("pool", 2.0, 6, threads=6, experiment="busy-pool", condition="busy")
    table = published_table(ran(row), "busy-pool")
    assert table is not None and "6 thr." in table.header
    assert column_label(shared_column_of(row)) == "all CPUs, pool"


def test_a_pool_is_told_and_is_no_part_of_the_verdict() -> None:
    table = experiment_table(pooled(), "busy-pool")
    methods = [line[table.header.index("method")] for line in table.rows]
    copies = "vm.mt_page_copy 2"
    assert methods == [
        "vanilla",
        "4 CPUs, pool",
        "4 CPUs, pool, nice.mtcopy -20",
        f"4 CPUs, pool, {copies}",
        f"4 CPUs, pool, {copies}, nice.mtcopy -20",
    ]
    assert not any("pool" in each.text or "hog" in each.text for each in verdict.of(pooled()))


def test_the_pool_is_there_before_movebench(tmp_path: Path) -> None:
    kernel = Kernel("pagehaul", tmp_path / "a tree", tmp_path, tmp_path, "7.3")
    shell, option, script = pool.loaded(kernel, Guest(), 4, ["movebench", "--plan=-"])
    assert (shell, option) == ("sh", "-c")
    load, _, rest = script.partition(" && ")
    assert shlex.split(load) == ["insmod", f"{tmp_path}/a tree/mm/migrate_copy/mtcopy.ko"]
    assert rest == "exec movebench --plan=-"


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [("mtcopy", {POOL}), ("dcbm", {DMA}), (None, set())],
    ids=("mtcopy", "dcbm", "none"),
)
def test_a_host_has_a_pool_where_mtcopy_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str | None, kinds: set[Any]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(real, "nodes_with_memory", lambda: [0, 1])
    monkeypatch.setattr(real, "_MIGRATE_COPY", tmp_path)
    if engine is not None:
        (tmp_path / "engines" / engine).mkdir(parents=True)
    host = real.Host(tmp_path)
    wanted = (EXPERIMENTS["busy-pool"], EXPERIMENTS["dma-folio-count"])
    places = [place for each in wanted for place in host.places(each, quick=True)]
    assert {place.kind for place in places} == kinds


def test_helpers_are_on_either_node_of_a_move_and_so_is_the_caller() -> None:
    cells = EXPERIMENTS["helper-node"].cells(Size(True, 8, 1024, model="epyc-zen3"))
    lines = [(each, effort_line(each)) for each in cells if each.shape == Shape(2048, 32)]
    # The caller is on the first CPU, and the first node.
    assert [
        (each.condition, each.kernel, each.helpers, line["from"], line["to"], line.get("helpers"))
        for each, line in lines
    ] == [
        ("caller on the source", "vanilla", None, 3, 7, None),
        ("caller on the source", "pagehaul", "source", 3, 7, 3),
        ("caller on the source", "pagehaul", "target", 3, 7, 7),
        ("caller on the target", "vanilla", None, 7, 3, None),
        ("caller on the target", "pagehaul", "source", 7, 3, 7),
        ("caller on the target", "pagehaul", "target", 7, 3, 3),
    ]
    assert all(line["one-way"] and line["ways"] == 1 for _, line in lines)
    assert {each.threads for each, _ in lines if each.helpers} == {4}
    there_and_back = effort_line(Cell(Shape(2048, 32), "pagehaul", "parallel", 4))
    assert there_and_back["ways"] == 2
    assert "one-way" not in there_and_back and "helpers" not in there_and_back


def test_where_helpers_were_is_told_beside_the_other_node() -> None:
    model = Virtual()
    results = measure(model, "helper-node")
    assert all(row.vs_vanilla is not None for row in results.rows)
    table = experiment_table(results, "helper-node")
    assert table.header[1:] == (
        "vanilla, GB/s",
        "4 CPUs, helpers source",
        "4 CPUs, helpers target",
    )
    assert [line[0] for line in table.rows] == [
        f"caller on the {node}, {shape}"
        for shape in ("4 KB x 16,384", "2 MB x 32")
        for node in ("source", "target")
    ]
    full = EXPERIMENTS["helper-node"].cells(Size(False, 12, 1024))
    # No more than one node has.
    assert {each.threads for each in full if each.helpers} == {2, 4, 6}
    assert {each.method for each in full if each.helpers} == {"threads", "parallel"}


def built(directory: Path, program: str, *sources: str) -> Path:
    """A C program that includes a file of bench/, and plays the rest of it."""
    (directory / "main.c").write_text(program)
    found = directory / "found"
    words = ["-std=gnu11", "-D_GNU_SOURCE", "-pthread", f"-I{REPO / 'bench'}", "-o", found]
    subprocess.run(["gcc", *words, directory / "main.c", *sources], check=True)
    return found


NICE = r"""
#include "knobs.c"
#include <sys/resource.h>

void fail(const char *format, ...) { puts(format); }
void usage_error(const char *format, ...) { puts(format); exit(2); }
int read_text(const char *path, char *text, size_t size) { return path && text && size ? -1 : 0; }
int set_sysfs(const char *path, const char *value)
{
    printf("%s=%s\n", path, value);
    return 0;
}
void each_kernel_thread(const char *prefix, void (*visit)(const char *pid, void *arg), void *arg)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%d", getpid());
    printf("threads %s\n", prefix);
    if (!strcmp(prefix, "mtcopy"))
        visit(pid, arg);
}

int main(int argc, char **argv)
{
    bool good = set_knobs((const char *const *)argv + 1, argc - 1);

    printf("%d\n", getpriority(PRIO_PROCESS, 0));
    return !good;
}
"""


def test_threads_get_their_priority_when_they_are_there(tmp_path: Path) -> None:
    program = built(tmp_path, NICE)
    words = ["nice.mtcopy=17", "engines/mtcopy/threads=4"]
    found = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == [
        "/sys/kernel/mm/migrate_copy/engines/mtcopy/threads=4",
        "threads mtcopy",
        "17",
    ]
    assert found.returncode == 0
    none = subprocess.run([program, "nice.other=17"], capture_output=True, text=True, check=False)
    assert none.returncode == 1 and "no kernel thread" in none.stdout


HELPERS = r"""
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#define mkdir(path, mode) (printf("mkdir %s\n", path), 0)
#define rmdir(path) (printf("rmdir %s\n", path), 0)
#include "helpers.c"

void fail(const char *format, ...) { puts(format); }
int read_text(const char *path, char *text, size_t size)
{
    snprintf(text, size, "1:name=systemd:/old\n0::/user.slice");
    return strcmp(path, "/proc/self/cgroup") ? -1 : 0;
}
int write_text(const char *path, const char *text)
{
    printf("%s %s\n", text, path);
    return 0;
}
bool node_cpus(unsigned long node, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    CPU_SET(1020, cpus);
    CPU_SET(1021, cpus);
    return node == 5;
}

int main(void)
{
    leave_helpers();
    if (choose_helpers(4) || !choose_helpers(5))
        return 1;
    leave_helpers();
    leave_helpers();
    return 0;
}
"""


def test_a_cpuset_has_the_callers_cpu_and_those_of_a_node(tmp_path: Path) -> None:
    found = subprocess.run(
        [built(tmp_path, HELPERS)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "has no CPU that could help" in found[0]
    own = "/sys/fs/cgroup/movebench-helpers"
    assert found[1:] == [
        "+cpuset /sys/fs/cgroup/cgroup.subtree_control",
        f"mkdir {own}",
        f"{min(os.sched_getaffinity(0))},1020,1021 {own}/cpuset.cpus",
        f"0 {own}/cgroup.procs",
        "0 /sys/fs/cgroup/user.slice/cgroup.procs",
        f"rmdir {own}",
    ]


ONE_WAY = r"""
#include "region.c"

long workers = 1;
int nr_settings;
const char program_name[] = "test";
uint64_t mix(uint64_t x) { return x; }
void fail(const char *format, ...) { puts(format); }
bool failed(void) { return false; }
bool prepare_reason(const struct cell *cell) { return cell; }
void clean_up_reason(void) { }
bool bind_memory(void *start, size_t bytes, unsigned long node) { return start && bytes && node; }
int read_text(const char *path, char *text, size_t size) { return path && text && size ? -1 : 0; }
int set_sysfs(const char *path, const char *value) { return path && value ? -1 : 0; }
void restore_sysfs(int keep) { (void)keep; }

int main(void)
{
    struct cell both = { .folio_kb = BASE_KB }, one = { .folio_kb = BASE_KB, .one_way = true };

    return moves_only_once(&both) || !moves_only_once(&one);
}
"""


def test_memory_that_goes_one_way_is_faulted_in_again(tmp_path: Path) -> None:
    program = built(tmp_path, ONE_WAY, str(REPO / "bench/hugetlb.c"))
    assert subprocess.run([program], check=False).returncode == 0
