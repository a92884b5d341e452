# SPDX-License-Identifier: GPL-2.0-only
"""What the end of a benchmark says, and in which colour."""

from dataclasses import replace
from typing import Any

import pytest
from test_report import results as host_results
from test_report import row

from pagehaul.bench.cell import Shape
from pagehaul.bench.choices import AUTOMATIC, forced
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.measures.serving import Phase, Serving
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import Integrity, Results, Row, Statement, compare
from pagehaul.guest import models
from pagehaul.report import terminal, verdict

RIGHT = Integrity(2 * 10**9, 0, 0)


def on(machine: Row, cpus: int, model: str = "plain") -> Row:
    """The row, as of a machine in virtual time."""
    return replace(machine, cpus=cpus, model=model, clock="virtual")


def cell(method: str, gbps: float, cpus: int = 4, **what: Any) -> Row:
    """A cell in virtual time, all of whose repetitions agree."""
    model = what.pop("model", "plain")
    return on(row(what.pop("experiment", "folio-count"), method, (gbps,) * 3, **what), cpus, model)


def vanilla(gbps: float = 2.0, **what: Any) -> Row:
    return cell("serial", gbps, kernel="vanilla", **what)


def ran(
    *rows: Row, integrity: Integrity = RIGHT, environment: dict[str, Any] | None = None
) -> Results:
    return Results(environment or {}, compare(rows), integrity)


def said(results: Results, words: str) -> Statement:
    """The only sentence with these words."""
    (found,) = (each for each in verdict.statements(results) if words in each.text)
    return found


def test_the_largest_gain_and_the_slowest_cell_are_told_in_words() -> None:
    rows = ran(vanilla(), cell("batch", 1.98), cell("parallel", 9.0, threads=4))
    assert said(rows, "largest gain") == Statement(
        "The largest gain is 4.50x the unmodified kernel's speed, 64 folios of 2 MB on 4 CPUs.",
        True,
    )
    assert said(rows, "slowest") == Statement(
        "None of 2 measurements is slower than the unmodified kernel; the slowest, 64 folios of 2 "
        "MB on 4 CPUs, reaches 0.99x its speed.",
        True,
    )


def test_no_gain_is_called_none() -> None:
    text = said(ran(vanilla(), cell("batch", 1.98)), "Nothing is faster").text
    assert "the best is 0.99x its speed" in text


def test_cells_that_lose_by_default_are_counted_and_red() -> None:
    small = (4, 8)
    rows = [vanilla(cpus=cpus, shape=shape) for cpus in (2, 4) for shape in (small, (4, 32))]
    rows += [
        cell("batch", 1.8, 2, shape=small),
        cell("batch", 1.9, 4, shape=small),
        cell("batch", 1.95, 4, shape=(4, 32)),
        cell("parallel", 1.0, 4, threads=4, shape=small, settings=forced(Shape(*small), 4)),
        cell("serial", 2.0, 4, shape=small),
    ]
    slowest = said(ran(*rows), "measurements are slower")
    assert slowest == Statement(
        "3 of 4 measurements are slower than the unmodified kernel; the slowest, 8 folios of 4 KB "
        "on 2 CPUs, reaches 0.90x its speed.",
        False,
    )


def test_a_cell_at_the_limit_does_not_lose() -> None:
    assert said(ran(vanilla(100.0), cell("batch", 98.0)), "the slowest").good
    assert not said(ran(vanilla(100.0), cell("batch", 97.9)), "the slowest").good


def test_pagehaul_by_itself_is_not_compared_with_an_unmodified_kernel() -> None:
    found = [each.text for each in verdict.statements(ran(cell("serial", 2.0), cell("batch", 1.0)))]
    assert [text.split()[0] for text in found] == ["Times", "Every"]


def scaling_rows(model: str, callers: float, ours: float) -> list[Row]:
    rows = [
        cell("callers", 2.0, 16, experiment="scaling", kernel="vanilla", model=model),
        cell("callers", 9.0, 16, experiment="scaling", kernel="vanilla", threads=8, model=model),
        cell("parallel", 7.0, 16, experiment="scaling", threads=8, model=model),
    ]
    for kernel, method, gbps in (("vanilla", "callers", callers), ("pagehaul", "parallel", ours)):
        rows.append(
            cell(
                method,
                gbps,
                16,
                experiment="scaling",
                kernel=kernel,
                threads=16,
                model=model,
            )
        )
    # It cannot be divided among callers.
    gigantic: dict[str, Any] = {"experiment": "scaling", "shape": (1 << 20, 1), "model": model}
    rows.append(cell("callers", 2.0, 16, kernel="vanilla", **gigantic))
    rows.append(cell("parallel", 2.0, 16, threads=1, **gigantic))
    return rows


def test_scaling_is_told_at_the_most_callers() -> None:
    better = scaling_rows("plain", 12.0, 26.0)
    assert said(ran(*better), "With 16 CPUs") == Statement(
        "With 16 CPUs of the model plain a 128 MB move of 2 MB folios is 13.0x as fast as one "
        "caller on the unmodified kernel; 16 plain callers reach 6.0x.",
        True,
    )
    both = ran(*better, *scaling_rows("grace", 26.0, 12.0))
    assert said(both, "With 16 CPUs of the model grace").text == (
        "With 16 CPUs of the model grace a 128 MB move of 2 MB folios is 6.0x as fast; 16 plain "
        "callers reach 13.0x."
    )


def test_callers_that_are_faster_are_told_and_red_only_with_all_cpus() -> None:
    behind = said(ran(*scaling_rows("plain", 12.0, 26.0)), "CPUs are faster")
    assert behind == Statement(
        "As many plain callers as CPUs are faster in 1 of 2 measurements, most with 2 MB folios on "
        "8 CPUs: 4.5x, where one caller with helpers reaches 3.5x.",
        True,
    )
    worse = said(ran(*scaling_rows("plain", 12.0, 10.0)), "CPUs are faster")
    assert not worse.good and "in 2 of 2 measurements" in worse.text
    rows = [each for each in scaling_rows("plain", 12.0, 26.0) if each.threads != 8]
    assert said(ran(*rows), "as CPUs are nowhere faster").good


def test_tiers_are_told_as_gain_or_as_loss() -> None:
    what: dict[str, Any] = {"experiment": "reasons", "shape": (4, 16384), "cpus": 16}
    rows = []
    for condition, gbps in (("demotion", 3.6), ("promotion", 1.9)):
        rows.append(vanilla(condition=condition, **what))
        rows.append(cell("parallel", gbps, threads=16, condition=condition, **what))
    text = "Demoting 64 MB of 4 KB pages on 16 CPUs of the model plain is 1.80x as fast."
    assert said(ran(*rows), "Demoting") == Statement(text, True)
    loss = said(ran(*rows), "promotion of 16,384 folios of 4 KB on 16 CPUs, reaches 0.95x")
    assert not loss.good


def served(gbps: float, p999_ns: int, per_second: float, **what: Any) -> Row:
    """A drain of Redis's memory."""
    during = Phase(100, per_second, 1, 2, p999_ns, p999_ns)
    window = Phase(500, 130_000.0, 1, 2, p999_ns, p999_ns)
    seen = Serving(
        1, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, (1.0,), (1.0,), (1.0,), (1.0,),
        during=during, window=window,
    )  # fmt: skip
    what = {"experiment": "workload-redis-drain", "condition": "closed loop", **what}
    made = cell(what.pop("method"), gbps, 16, shape=(4, 131072), **what)
    return replace(made, seen={"serving": seen})


def test_a_server_whose_memory_moves() -> None:
    plain = served(1.0, 900_000, 130_000, method="serial", kernel="vanilla")
    ours = served(10.0, 120_000, 129_000, method="parallel", threads=16)
    found = [each for each in verdict.statements(ran(plain, ours)) if "Redis" in each.text]
    assert found == [
        Statement("512 MB of Redis's memory move in 54 ms instead of 537 ms.", True),
        Statement(
            "From the start of the move on Redis answers 99.9% of the requests within 0.1 ms "
            "instead of 0.9 ms.",
            True,
        ),
    ]
    worse = served(10.0, 1_000_000, 90_000, method="parallel", threads=16)
    assert not said(ran(plain, worse), "99.9%").good
    assert said(ran(plain, worse), "requests a second") == Statement(
        "While its memory moves, Redis answers 90,000 requests a second instead of 130,000.", False
    )


def test_small_moves_are_told_at_their_worst() -> None:
    rows = [vanilla(cpus=cpus, shape=(4, n)) for cpus in (2, 4) for n in (1, 8, 32)]
    rows += [cell("batch", 2.1, 2, shape=(4, n)) for n in (1, 8, 32)]
    automatic = dict(AUTOMATIC)
    rows.append(cell("parallel", 1.99, 4, threads=4, shape=(4, 8), settings=automatic))
    # Others are none of the kernel's choice.
    rows.append(cell("parallel", 1.0, 4, threads=4, shape=(4, 8), settings=forced(Shape(4, 8), 2)))
    counted = []
    for kernel, count in (("vanilla", 1000.0), ("pagehaul", 1005.0)):
        ran_once = row(
            "path-length",
            "serial",
            (1000 / count,) * 3,
            kernel=kernel,
            shape=(4, 1),
            instructions=count,
        )
        counted.append(replace(ran_once, cpus=1, clock="instructions"))
    assert said(ran(*rows, *counted), "kernel's time") == Statement(
        "Of moves of at most 32 pages the slowest, a move of 8 pages on 4 CPUs, takes 1.01x the "
        "unmodified kernel's time.",
        True,
    )
    assert "a move of one page on 1 CPU, takes 1.005x" in said(ran(*counted), "instructions").text
    slow = cell("batch", 1.9, 4, shape=(4, 32))
    assert not said(ran(*rows, slow), "kernel's time").good


@pytest.mark.parametrize(
    ("gbps", "lost", "good"), [(2.0, 4e6, True), (1.9, 4e6, False), (3.0, 5e6, False)]
)
def test_busy_machines(gbps: float, lost: float, good: bool) -> None:
    what: dict[str, Any] = {"experiment": "busy", "condition": "busy"}
    rows = ran(
        vanilla(hog=Hog(3, 0.5, 4e6), **what),
        cell("parallel", gbps, threads=4, hog=Hog(3, 0.5, lost), **what),
    )
    busy = said(rows, "busy process")
    assert busy.good == good
    assert f"at {gbps / 2:.2f}x the unmodified kernel's speed" in busy.text
    assert f"at most {lost / 4e6:.2f}x as much" in busy.text


def touch(p99_ns: int) -> Touch:
    return Touch(9, 1000, 2000, 3000, Touches(900, 100, p99_ns))


def test_waits() -> None:
    what: dict[str, Any] = {"experiment": "stall"}
    alike = cell("batch", 2.0, touch=touch(2100), **what)
    longer = cell("parallel", 2.0, threads=4, touch=touch(3000), **what)
    assert said(ran(vanilla(touch=touch(2000), **what), alike), "reads of moving memory").good
    waits = said(ran(vanilla(touch=touch(2000), **what), alike, longer), "reads of moving memory")
    assert not waits.good
    assert waits.text == (
        "99% of the reads of moving memory wait at most 1.50x as long as on the unmodified kernel, "
        "3.0 us where that is worst."
    )


def test_dma_is_told_with_its_cpu_time() -> None:
    what: dict[str, Any] = {"experiment": "cpu-freed"}
    rows = ran(vanilla(cpu_ns=2000.0, **what), cell("dma", 6.0, channels=4, cpu_ns=500.0, **what))
    text = "With DMA channels a move is up to 3.00x as fast, for 25% of the CPU time."
    assert said(rows, "DMA") == Statement(text, True)


def validated(*gbps: float) -> list[Row]:
    """1, 2 and 4 threads on 2 MB folios of Zen 3: published 10.73, 17.21 and 29.61 GB/s."""
    return [
        cell("threads", each, experiment="validation", threads=1 << number, model="epyc-zen3")
        for number, each in enumerate(gbps)
    ]


def test_validation() -> None:
    near = said(ran(*validated(10.73, 17.21, 29.61)), "published")
    assert near.good and "give 2 of 2 published ratios" in near.text
    off = said(ran(*validated(10.0, 16.0, 10.0)), "published")
    assert not off.good
    assert off.text == (
        "The models give 1 of 2 published ratios within 25%; the furthest is off by -64%, and 1 of "
        "the others are unexplained."
    )


def test_a_deviation_that_is_explained_is_no_red_one(monkeypatch: pytest.MonkeyPatch) -> None:
    why = models.Deviation("CPU threads", 2048, "for a test")
    model = replace(models.load("epyc-zen3"), deviations=(why,))
    monkeypatch.setattr(models, "load", lambda _: model)
    off = said(ran(*validated(10.0, 16.0, 10.0)), "published")
    assert off.good and off.text.endswith("off by -64%.")


def test_a_model_that_loses_is_no_loss_of_ours() -> None:
    rows = validated(1.0, 1.0)
    rows.append(vanilla(experiment="validation", model="epyc-zen3"))
    assert not any("slowest" in each.text for each in verdict.statements(ran(*rows)))


def test_cells_whose_repetitions_differ_are_counted() -> None:
    restless = replace(cell("batch", 2.0), gbps=(1.97, 2.0, 2.02))
    told = "Times are those of a machine model, not of hardware; in a run, repetitions of {} of 2 "
    told += "measurements differ by more than 2%."
    assert said(ran(vanilla(), cell("batch", 2.0)), "Times").text == told.format(0)
    assert said(ran(vanilla(), restless), "Times").text == told.format(1)
    # The host's clock never promised it.
    alone = replace(restless, clock="host", model=None)
    assert [each.text for each in verdict.statements(ran(alone))] == [
        "Every page arrived with its content; 2.0 GB were compared."
    ]


def test_slices_that_ended_by_force_are_bounded() -> None:
    def with_forced(forced: int) -> Statement:
        guests = [{"slices": 1000, "forced": 0}, {"slices": 9000, "forced": forced}]
        return said(ran(vanilla(), environment={"simulation": guests}), "Times")

    assert with_forced(10).good
    doubtful = Statement("Times are doubtful: 11 of 10,000 time slices ended by force.", False)
    assert with_forced(11) == doubtful


def test_hardware_is_named_where_it_was_measured() -> None:
    host = {"cpu": "A CPU", "cpus": 8, "nodes": [{"node": 0, "cpus": 8, "memory_mb": 9}]}
    where = {"host": host, "machines": {"parallel": {"not_bound": "there is one node"}}}
    rows = [replace(each, clock="host", model=None) for each in (vanilla(), cell("batch", 2.0))]
    found = [each.text for each in verdict.statements(ran(*rows, environment=where))]
    assert found[-3:-1] == [
        "Measured by KVM on A CPU, 8 CPUs, 1 node.",
        "Distance is not real there: figures compare kernels, not nodes.",
    ]


@pytest.mark.parametrize("integrity", [Integrity(10**9, 3, 0), Integrity(10**9, 0, 2)])
def test_wrong_content_is_red(integrity: Integrity) -> None:
    assert not said(ran(vanilla(), integrity=integrity), "were compared").good
    assert not verdict.content_right(ran(vanilla(), integrity=integrity))
    assert verdict.content_right(ran(vanilla()))


def test_ten_sentences_at_most_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    more = [
        *scaling_rows("plain", 12.0, 26.0),
        *scaling_rows("grace", 12.0, 26.0),
        *scaling_rows("cxl", 12.0, 1.0),
        *validated(10.0, 16.0, 10.0),
        *(vanilla(shape=(4, 8)), cell("batch", 2.0, shape=(4, 8))),
    ]
    host = host_results()
    everything = replace(host, rows=(*host.rows, *compare(more)))
    found = verdict.statements(everything)
    assert len(found) == verdict.MOST_SENTENCES
    # A gain gives way to a broken promise.
    assert any("0.5x as fast" in each.text and not each.good for each in found)
    terminal.print_verdict(everything)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == verdict.MOST_SENTENCES
    assert sum(line.startswith("Goal missed: ") for line in lines) == sum(
        not each.good for each in found
    )


def test_what_was_verified_and_broken_promises_are_never_cut() -> None:
    rows = [*scaling_rows("plain", 12.0, 1.0), *scaling_rows("grace", 12.0, 26.0)]
    rows += [*scaling_rows("cxl", 12.0, 26.0), *scaling_rows("lines", 12.0, 26.0)]
    what: dict[str, Any] = {"experiment": "reasons", "shape": (4, 16384), "condition": "demotion"}
    for model in ("plain", "grace", "cxl", "lines", "epyc-zen3"):
        rows.append(vanilla(cpus=16, model=model, **what))
        rows.append(cell("parallel", 3.6, 16, threads=16, model=model, **what))
    rows.append(served(1.0, 900_000, 130_000, method="serial", kernel="vanilla"))
    rows.append(served(10.0, 1_000_000, 90_000, method="parallel", threads=16))
    found = verdict.statements(ran(*rows))
    assert len(found) == verdict.MOST_SENTENCES
    assert found[-1].text.startswith("Every page arrived")
    bad = [each.text for each in found if not each.good]
    assert any("0.5x as fast" in text for text in bad)
    assert any("99.9%" in text for text in bad)
    assert any("90,000 requests" in text for text in bad)


def test_a_later_server_is_told_only_where_a_promise_breaks() -> None:
    rows = [
        served(1.0, 900_000, 130_000, method="serial", kernel="vanilla"),
        served(10.0, 120_000, 130_000, method="parallel", threads=16, settings={"by": "move"}),
        served(
            10.0, 120_000, 130_000, method="parallel", threads=16, settings={"max_helpers": "8"}
        ),
    ]
    other: dict[str, Any] = {"experiment": "workload-memcached-drain"}
    rows.append(served(1.0, 900_000, 130_000, method="serial", kernel="vanilla", **other))
    rows.append(served(9.0, 120_000, 90_000, method="parallel", threads=16, **other))
    found = [each.text for each in verdict.statements(ran(*rows))]
    assert sum("memory move in" in text for text in found) == 1
    assert [text for text in found if "memcached" in text] == [
        "While its memory moves, memcached answers 90,000 requests a second instead of 130,000."
    ]


def test_a_stored_verdict_is_printed_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    stored = (Statement("As it was.", False),)
    terminal.print_verdict(replace(ran(vanilla()), verdict=stored))
    assert capsys.readouterr().out == "Goal missed: As it was.\n"
