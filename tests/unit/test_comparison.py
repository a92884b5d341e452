# SPDX-License-Identifier: GPL-2.0-only
"""Two runs beside each other: which cells have changed, and by more than chance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_report import results as host_results
from test_report import row
from test_virtual_tables import cell, ran, vanilla

from pagehaul.bench.means import differ
from pagehaul.bench.row import Integrity, Results, compare
from pagehaul.bench.store import dump, keep, load
from pagehaul.cli.main import main
from pagehaul.report import comparison


def run(gbps: float, base: float = 2.0, **what: Any) -> Results:
    return ran(vanilla(base, **what), cell("parallel", gbps, threads=4, **what))


def test_cells_are_compared_by_the_unmodified_kernel_of_their_own_run() -> None:
    # The second machine is twice as fast, and Pagehaul no faster on it.
    base, ours = comparison.changes(run(6.0), run(12.0, 4.0))
    assert (base.change, base.certain) == (2.0, True)
    assert (ours.change, ours.certain) == (1.0, False)
    _, slower = comparison.changes(run(6.0), run(3.0))
    assert (slower.change, slower.certain) == (0.5, True)


def test_without_a_baseline_it_is_speed() -> None:
    before, after = (ran(cell("batch", gbps)) for gbps in (2.0, 3.0))
    (found,) = comparison.changes(before, after)
    assert found.change == 1.5 and found.certain
    # Where only one run has it, too.
    (found,) = comparison.changes(before, ran(vanilla(1.0), cell("batch", 3.0)))
    assert found.change == 1.5


def test_one_repetition_says_nothing_of_chance() -> None:
    assert not differ([1.0], [2.0, 2.0])
    assert not differ([2.0, 2.0], [1.0])
    assert differ([1.0, 1.0], [2.0, 2.0])


def test_only_cells_of_both_runs_are_compared() -> None:
    before = ran(*run(6.0).rows, *run(6.0, shape=(4, 8)).rows)
    after = ran(*run(7.0).rows, cell("batch", 2.0), *run(7.0, model="grace").rows)
    found = comparison.changes(before, after)
    assert [each.after.method for each in found] == ["serial", "parallel"]
    (table, _) = comparison.tables(before, after)
    assert "Cells of the first run only: 2; of the second only: 3." in table.caption


def test_what_differs_by_chance_is_not_certain() -> None:
    def noisy(middle: float) -> Results:
        rows = [row("folio-count", "serial", (2.0, 2.0, 2.0), kernel="vanilla")]
        rows.append(row("folio-count", "batch", (middle - 1, middle, middle + 1)))
        return Results({}, compare(rows), Integrity(1, 0, 0))

    assert [each.certain for each in comparison.changes(noisy(3.0), noisy(3.3))] == [False, False]
    assert [each.certain for each in comparison.changes(noisy(3.0), noisy(30.0))] == [False, True]
    # A change that repeats, and is too small to matter, is none.
    assert not comparison.changes(run(2.0), run(2.01))[1].certain


def test_tables_count_and_name_what_has_changed() -> None:
    summary, cells = comparison.tables(run(6.0), run(3.0))
    assert summary.rows == (("folio-count", "2", "0", "1", "0.50x", "0.75x", "1.00x"),)
    assert cells.rows == (
        ("folio-count", "2 MB x 64 on 4 CPUs", "4 CPUs", "plain", "6.00", "3.00", "0.50x"),
    )
    (alone,) = comparison.tables(run(6.0), run(6.0))
    assert alone.rows[0][2:4] == ("0", "0")


def test_the_verb_compares_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump(run(6.0), tmp_path / "a.json")
    dump(run(3.0), tmp_path / "b.json")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert main(["report", "--compare", *files]) == 0
    out = capsys.readouterr().out
    assert "What has changed" in out and "0.50x" in out
    assert main(["report", "--compare", *files, files[0]]) == 1
    assert "two files of results, and nothing else" in capsys.readouterr().err
    assert main(["report"]) == 1
    assert "needs a file of results" in capsys.readouterr().err


def test_results_are_kept_without_being_asked_for(cache: Path) -> None:
    made = replace(host_results(), environment={"quick": True})
    stored = keep(made)
    assert stored.parent == cache / "results"
    assert load(stored).rows == made.rows
