# SPDX-License-Identifier: GPL-2.0-only
"""The main job: which cells, on which kernels, and what is left of it after Ctrl-C."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from test_bench import Virtual, arguments
from test_report import results as made_results

from pagehaul.bench import main_job, measuring, store
from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines import setup
from pagehaul.bench.machines.places import Lines, OnLine, Place, Turn
from pagehaul.bench.row import PARTS, Results
from pagehaul.cli import bench
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs, kvm
from pagehaul.kernel import build
from pagehaul.report import comparison

MODELS = (main_job.MODEL,)


def measured(machine: Virtual) -> Results:
    return measuring.measure(main_job.experiments(), machine, quick=True, on_part=lambda *_: None)


def test_it_measures_what_the_project_is_for() -> None:
    machine = Virtual(names=MODELS)
    results = measured(machine)
    assert {(row.model, row.cpus) for row in results.rows} == {("epyc-zen3", 16)}
    counts = {1, 2, 4, 8, 16}
    scaling = results.of("scaling")
    assert {row.folio_kb for row in scaling} == {4, 64, 2048}
    for method in ("callers", "parallel"):
        assert {row.threads for row in scaling if row.method == method} == counts
    small = results.of("policy")
    assert {(row.kernel, row.folios) for row in small} == {
        (kernel, folios) for kernel in ("vanilla", "pagehaul") for folios in (1, 8, 32)
    }
    tiers = results.of("reasons")
    assert {(row.kernel, row.condition) for row in tiers} == {
        (kernel, reason) for kernel in ("vanilla", "pagehaul") for reason in main_job.TIERS
    }
    assert [row.kernel for row in results.of("workload-redis-drain")] == ["vanilla", "pagehaul"]
    # Its cells are those of whole experiments, and a server plays a scene in each of three guests.
    whole = measuring.measure(
        [EXPERIMENTS["scaling"]], Virtual(names=MODELS), quick=True, on_part=lambda *_: None
    )
    assert {row.case for row in whole.rows} > {row.case for row in scaling}
    scenes = [line for boot in machine.boots for _, line in boot if "scene" in line]
    assert [line["reps"] for line in scenes] == [1] * 6


@dataclass
class Impatient(Virtual):
    """Its user presses Ctrl-C after so many lines."""

    patience: int = 0

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        return 1

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> list[tuple[str, dict[str, Any]]]:
        def counted(kernel: str, line: dict[str, Any]) -> None:
            if not self.patience:
                raise KeyboardInterrupt
            self.patience -= 1
            on_line(kernel, line)

        return super().run(place, quick, turns, timeout, counted, stop)


def test_ctrl_c_keeps_what_has_been_measured() -> None:
    whole = measured(Virtual(names=MODELS))
    assert not whole.interrupted
    cut = measured(Impatient(names=MODELS, patience=23))
    assert cut.interrupted
    assert len(cut.rows) == 23
    # The unmodified kernel's guest had come to its end, the other one had not.
    assert {row.kernel for row in cut.rows} == {"vanilla", "pagehaul"}
    compared = [row for row in cut.rows if row.kernel == "pagehaul"]
    assert compared and all(row.vs_vanilla is not None for row in compared)
    with pytest.raises(KeyboardInterrupt):
        measured(Impatient(names=MODELS, patience=0))


def test_an_interrupted_run_says_so_and_is_kept(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Impatient(names=MODELS, patience=23)
    monkeypatch.setattr(bench, "_machine", lambda args, wanted: machine)
    assert bench.run(arguments()) == 130
    assert "Interrupted: only 23 measurements were made." in capsys.readouterr().err
    (path,) = (cache / "results").iterdir()
    assert store.load(path).interrupted


def test_a_second_run_compares_itself_with_the_last_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter(["20261129-100000", "20261129-110000", "20261129-120000"])
    monkeypatch.setattr(store.time, "strftime", lambda *_: next(times, "2026-11-29T10:00:00Z"))
    for patience in (23, 10_000, 10_000):
        machine = Impatient(names=MODELS, patience=patience)
        monkeypatch.setattr(bench, "_machine", lambda args, wanted, found=machine: found)
        bench.run(arguments())
    told = capsys.readouterr().out
    # Not with the one that was interrupted.
    assert told.count("Compared with the run of") == 1
    assert "42 of 42 measurements are within 2%." in told


def test_the_sentence_names_the_cell_that_differs_most() -> None:
    before = made_results()
    rows = [replace(row, gbps=tuple(2 * each for each in row.gbps)) for row in before.rows[-1:]]
    after = replace(before, rows=(*before.rows[:-1], *rows))
    text = comparison.sentence(before, after)
    count = len(before.rows)
    assert f"{count - 1} of {count} measurements are within 2%; the furthest, " in text
    assert text.endswith("runs at 2.00x its speed.")


def test_results_of_other_cells_are_not_the_last_run(cache: Path) -> None:
    stored = made_results()
    store.keep(stored)
    assert store.last(stored) is not None
    assert store.last(replace(stored, rows=stored.rows[:1])) is None
    # Nor are those of other kernels, or of another size.
    for name, value in (
        ("kernels", {"vanilla": "6.12"}),
        ("quick", "other"),
    ):
        assert store.last(replace(stored, environment={**stored.environment, name: value})) is None
    for path in (cache / "results").iterdir():
        path.write_text("cut off")
    assert store.last(stored) is None


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The kernels that are built."""
    names: list[str] = []

    def made(variant: str, base: object) -> Any:
        names.append(variant)
        return SimpleNamespace(image=tmp_path)

    monkeypatch.setattr(build, "build", made)
    monkeypatch.setattr(cprogs, "build_static", lambda _: tmp_path)
    monkeypatch.setattr(setup.tools, "require", lambda *_: None)
    monkeypatch.setattr(kvm, "kvm_works", lambda _: False)
    return names


SMALL = ["bench-vanilla", "bench-pagehaul"]


@pytest.mark.parametrize(
    ("names", "large", "kernels"),
    [
        (["scaling", "reasons", "workload-redis-drain"], False, SMALL),
        (["scaling"], True, ["vanilla", "pagehaul"]),
        # Channels are modules, and a variant is compared with the kernels of the tests.
        (["scaling", "hybrid"], False, ["vanilla", "pagehaul"]),
        (["path-length"], False, SMALL),
        (["parts"], False, [*SMALL, *(f"bench-{part}" for part in PARTS)]),
        (["pft"], False, ["vanilla", "pagehaul", "pcp-compound"]),
    ],
)
def test_small_kernels_are_measured_where_they_have_all_that_is_needed(
    built: list[str], names: list[str], large: bool, kernels: list[str]
) -> None:
    wanted: list[Experiment] = [EXPERIMENTS[name] for name in names]
    guests = setup.guests(wanted, None, quick=True, large=large)
    assert built == kernels
    assert list(guests.images)[:2] == ["vanilla", "pagehaul"]


def test_kvm_has_the_kernels_of_the_tests(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "kvm_works", lambda _: True)
    setup.guests([EXPERIMENTS["scaling"]], None, quick=True)
    assert built == ["bench-vanilla", "vanilla", "pagehaul"]


def test_lines_come_in_pieces() -> None:
    lines = Lines()
    assert lines.add(b'{"label"') == []
    assert lines.add(b': "0"}\n{"la') == [{"label": "0"}]
    assert lines.add(b'bel": "1"}\nno JSON\n') == [{"label": "1"}, {}]


def test_progress_is_a_share_of_all_cells() -> None:
    share = measuring._Share([SimpleNamespace(cost=96), SimpleNamespace(cost=96)])  # type: ignore[list-item]
    assert str(share) == "0% of all"
    share.add(50)
    assert str(share).startswith("25% of all, a minute left")
    share.add(150)
    assert str(share).startswith("100% of all")


def test_full_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> Callable[[], None]:
        raise PagehaulError("enough")

    monkeypatch.setattr(bench, "_machine", stop)
    with pytest.raises(PagehaulError, match="enough"):
        bench.run(arguments(full=True))
    assert "hours on two CPUs" in capsys.readouterr().err
