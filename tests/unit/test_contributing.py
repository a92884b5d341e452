# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/contributing.md, in a copy of the repository that has nothing else added."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pagehaul.kernel import bases, knobs
from pagehaul.paths import REPO

PAGE = (REPO / "docs/contributing.md").read_text(encoding="utf-8")

# The path of a file, and its text.
FILES = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))

EXPERIMENTS = "src/pagehaul/bench/experiments"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what examples add to, and the rest of the repository beside it."""
    for path in REPO.iterdir():
        if path.name not in ("src", "bases", "bench", ".venv", ".git", "build"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(REPO / "bases", tmp_path / "bases")
    shutil.copytree(REPO / "bench", tmp_path / "bench")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(REPO / "src", tmp_path / "src", ignore=skip)
    return tmp_path


def add(clone: Path, *names: str) -> None:
    for name in names:
        path = clone / name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(FILES[name], encoding="utf-8")


def python(clone: Path, *words: str) -> str:
    """Run Python with the tool of the copy, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone / "src"), "COLUMNS": "10000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(clone: Path, name: str) -> str:
    """Return the lines of an experiment's plan for two CPUs, as the benchmark programs get them."""
    code = f"""
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import Size
from pagehaul.bench.plan import plan_line
experiment = EXPERIMENTS["{name}"]
effort = experiment.machine.effort("host", quick=True)
for cell in experiment.cells(Size(quick=True, cpus=2, node_mb=512)):
    print(cell.kernel, plan_line(0, cell, effort, 3, 1, (0, 1)))
"""
    return python(clone, "-c", code)


def test_each_example_is_tried() -> None:
    tried = Path(__file__).read_text(encoding="utf-8")
    assert len(FILES) == 7
    for name in FILES:
        assert name.removeprefix(f"{EXPERIMENTS}/") in tried


def test_the_entry_of_a_knob_is_read(tmp_path: Path) -> None:
    (entry,) = re.findall(r"^```toml\n(\[\[directory\.knob\]\]\n.*?)^```$", PAGE, re.M | re.S)
    path = tmp_path / "knobs.toml"
    path.write_text(f"{knobs.DESCRIPTION.read_text(encoding='utf-8')}\n{entry}", encoding="utf-8")
    assert knobs.read(path)[-1].knobs[-1].name == "new_knob"


def test_an_experiment_is_one_file(clone: Path) -> None:
    add(clone, f"{EXPERIMENTS}/two_sizes.py")
    listed = python(clone, "-m", "pagehaul", "bench", "--help")
    # It stands where its place is.
    assert "stall, two-sizes, first-folio" in listed
    lines = cells(clone, "two-sizes").splitlines()
    assert len(lines) == 4 and all("--touch=500" in line for line in lines)


def test_a_suite_is_one_file(clone: Path) -> None:
    add(clone, "src/pagehaul/suites/all/errors_again.py")
    listed = python(clone, "-m", "pagehaul", "test", "--help")
    assert "errors, errors-again, status" in listed
    assert listed.count("errors-again") == 3
    code = """
from pathlib import Path
from pagehaul.guest import cprogs
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.kernel.built import Kernel
from pagehaul.suites import ours, registry
nowhere = Path("nowhere")
build.build = lambda name, base: Kernel(name, nowhere, nowhere, nowhere, "7")
cprogs.selftests = lambda *_: nowhere
def tell(works, kernel):
    _, _, guest, programs = works[0].args
    print(len(works), guest.nodes, *programs)
    return []
ours.all_at_once = tell
registry.SUITES["errors-again"]()
"""
    assert python(clone, "-c", code).startswith("2 1 Program(label='migrate_errors'")


def test_a_measure_is_two_files(clone: Path) -> None:
    add(clone, "src/pagehaul/bench/measures/energy.py", f"{EXPERIMENTS}/energy.py")
    assert "--energy" in cells(clone, "energy")
    code = """
import json
from pagehaul.bench import schema, store
from pagehaul.bench.cell import Cell, Shape
from pagehaul.bench.collect import row_of
from pagehaul.bench.machines.kinds import PARALLEL
from pagehaul.bench.machines.places import Place
from pagehaul.bench.measure import Observed
from pagehaul.bench.row import Integrity, Results, compare
from pagehaul.bench.tables import experiment_table
from pagehaul.report import page, questions

rows = []
for kernel, uj in (("vanilla", 100), ("pagehaul", 50)):
    figures = {"ns": [1000] * 3, "cpu_ns": [1000] * 3, "moved_bytes": [1 << 25] * 3}
    line = {**figures, "counters": {}, "energy_uj": [uj, uj + 1, uj + 2]}
    method = "serial" if kernel == "vanilla" else "parallel"
    cell = Cell(Shape(2048, 16), kernel, method)
    rows.append(row_of("energy", Observed(cell, lines=[line]), Place(PARALLEL, 2)))
results = Results({}, compare(rows), Integrity(1, 0, 0))
document = [store.entry_of(row) for row in results.rows]
assert document[1]["energy"] == {"moves": 3, "uj": 51.0}
assert schema.whole()["$defs"]["energy"]["properties"]["uj"] == {"type": "number", "minimum": 0}
print(*experiment_table(results, "energy").rows[1], sep="|")
assert 'head">Energy of a move' in page.page([results])
print(*questions.tables(results)[questions.COSTS].rows[0][1:5], sep="|")
"""
    told, costs = python(clone, "-c", code).splitlines()
    assert told == "2 MB x 16|1 CPUs|51|0.50"
    assert costs == "Energy of a move|0.50x|0.50x|0.50x"


def test_a_meter_is_one_file_in_c(clone: Path) -> None:
    add(clone, "bench/meter_energy.c")
    command = ["make", "-s", "-C", clone / "bench", f"O={clone / 'out'}", clone / "out/movebench"]
    subprocess.run(command, check=True)
    movebench = clone / "out/movebench"
    told = subprocess.run([movebench, "--help"], capture_output=True, text=True, check=True)
    assert "      --energy         tell the energy" in told.stdout
    # The line has the figures that were asked for, even if this machine can do nothing else.
    words = [movebench, "--energy", "--folios=1"]
    (line,) = subprocess.run(words, capture_output=True, text=True).stdout.splitlines()
    assert "energy_uj" in json.loads(line) and "warm_ns" not in json.loads(line)
    (line,) = subprocess.run(
        [movebench, "-C", "64"], capture_output=True, text=True
    ).stdout.splitlines()
    assert {"warm_ns", "own_ns", "read_ns"} <= json.loads(line).keys()


def test_a_knob_is_an_experiment_that_sets_it(clone: Path) -> None:
    add(clone, f"{EXPERIMENTS}/new_knob.py")
    vanilla, *ours = cells(clone, "new-knob").splitlines()
    assert "--knob" not in vanilla
    assert [re.findall(r"--knob=new_knob=(\d+)", line) for line in ours] == [["1"], ["16"], ["256"]]


def test_a_base_is_one_directory(clone: Path) -> None:
    add(clone, "bases/9.9/base.toml")
    names = ",".join((*bases.names(), "9.9"))
    assert names in python(clone, "-m", "pagehaul", "tree", "--help")
