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


def said(results: Results, beginning: str) -> Statement:
    """The only sentence that begins so."""
    (found,) = (each for each in verdict.statements(results) if each.text.startswith(beginning))
    return found


def test_fastest_and_slowest_cells_are_named() -> None:
    rows = ran(vanilla(), cell("batch", 1.98), cell("parallel", 9.0, threads=4))
    best = said(rows, "Fastest")
    assert best == Statement(
        "Fastest: 4.50x the unmodified kernel's speed "
        "(folio-count, 2 MB x 64 on 4 CPUs, all CPUs, model plain).",
        True,
    )
    assert said(rows, "Slowest") == Statement(
        "Slowest: 0.99x the unmodified kernel's speed "
        "(folio-count, 2 MB x 64 on 4 CPUs, batch, model plain); none of 2 cells is below 0.98.",
        True,
    )


def test_every_cell_that_loses_is_named_and_red() -> None:
    small = (4, 8)
    rows = [vanilla(cpus=cpus, shape=shape) for cpus in (2, 4) for shape in (small, (4, 32))]
    rows += [
        cell("batch", 1.8, 2, shape=small),
        cell("batch", 1.9, 4, shape=small),
        cell("batch", 1.95, 4, shape=(4, 32)),
        cell("parallel", 1.0, 4, threads=4, shape=small, settings=forced(Shape(*small), 4)),
        cell("serial", 2.0, 4, shape=small),
    ]
    slowest = said(ran(*rows), "Slowest")
    assert not slowest.good
    assert "4 of 5 cells are below 0.98." in slowest.text
    assert "folio-count, plain, batch: 4 KB x 8 on 2, 4 CPUs 0.90 to 0.95, " in slowest.text
    assert "4 KB x 32 on 4 CPUs 0.97" in slowest.text
    others = slowest.text.partition("With settings forced for comparison: ")[2]
    assert others == "folio-count, plain, all CPUs, forced: 4 KB x 8 on 4 CPUs 0.50."


def test_a_cell_at_the_limit_does_not_lose() -> None:
    assert said(ran(vanilla(100.0), cell("batch", 98.0)), "Slowest").good
    assert not said(ran(vanilla(100.0), cell("batch", 97.9)), "Slowest").good


def test_pagehaul_by_itself_is_not_compared_with_an_unmodified_kernel() -> None:
    texts = [each.text for each in verdict.statements(ran(cell("serial", 2.0), cell("batch", 1.0)))]
    assert [text.split(":")[0] for text in texts] == ["Virtual time", "Verified"]


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
    text = "Scaling, one caller with helpers and as many plain callers, by one plain caller: "
    good = said(ran(*better), "Scaling")
    assert good == Statement(f"{text}16 CPUs, model plain: 2 MB x 64 13.0x and 6.0x.", True)
    both = said(ran(*better, *scaling_rows("grace", 26.0, 12.0)), "Scaling")
    assert not both.good
    assert both.text.endswith("; 16 CPUs, model grace: 2 MB x 64 6.0x and 13.0x.")


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
    small = said(ran(*rows, *counted), "Small moves")
    assert small.good
    assert small.text.endswith("speed 1.05x (1), 0.99x (8), 1.05x (32); instructions 1.005x (1).")
    slow = cell("batch", 1.9, 4, shape=(4, 32))
    assert not said(ran(*rows, slow), "Small moves").good


@pytest.mark.parametrize(("gbps", "lost", "good"), [(2.0, 4e6, True), (1.9, 4e6, False)])
def test_busy_machines(gbps: float, lost: float, good: bool) -> None:
    what: dict[str, Any] = {"experiment": "busy", "condition": "busy"}
    rows = ran(
        vanilla(hog=Hog(3, 0.5, 4e6), **what),
        cell("parallel", gbps, threads=4, hog=Hog(3, 0.5, lost), **what),
    )
    busy = said(rows, "Beside a hog")
    assert busy.good == good
    assert f"{gbps / 2:.2f}x the unmodified kernel's speed; the hogs lose 1.00x" in busy.text


def test_hogs_that_lose_more_are_red() -> None:
    what: dict[str, Any] = {"experiment": "busy", "condition": "busy"}
    rows = ran(
        vanilla(hog=Hog(3, 0.5, 4e6), **what),
        cell("batch", 3.0, hog=Hog(3, 0.5, 5e6), **what),
    )
    assert not said(rows, "Beside a hog").good


def touch(p99_ns: int) -> Touch:
    return Touch(9, 1000, 2000, 3000, Touches(900, 100, p99_ns))


def test_waits() -> None:
    what: dict[str, Any] = {"experiment": "stall"}
    alike = cell("batch", 2.0, touch=touch(2100), **what)
    longer = cell("parallel", 2.0, threads=4, touch=touch(3000), **what)
    assert said(ran(vanilla(touch=touch(2000), **what), alike), "A thread").good
    waits = said(ran(vanilla(touch=touch(2000), **what), alike, longer), "A thread")
    assert not waits.good
    assert "at most 3.0 us in 99% of its reads where that is worst, 1.50x" in waits.text


def test_dma_is_told_with_its_cpu_time() -> None:
    what: dict[str, Any] = {"experiment": "cpu-freed"}
    rows = ran(vanilla(cpu_ns=2000.0, **what), cell("dma", 6.0, channels=4, cpu_ns=500.0, **what))
    dma = said(rows, "DMA")
    assert dma.good
    assert "up to 3.00x" in dma.text and dma.text.endswith("for 25% of its CPU time.")


def validated(*gbps: float) -> list[Row]:
    """1, 2 and 4 threads on 2 MB folios of Zen 3: published 10.73, 17.21 and 29.61 GB/s."""
    return [
        cell("threads", each, experiment="validation", threads=1 << number, model="epyc-zen3")
        for number, each in enumerate(gbps)
    ]


def test_validation() -> None:
    near = said(ran(*validated(10.73, 17.21, 29.61)), "Published")
    assert near.good and "epyc-zen3 2 of 2; furthest " in near.text
    off = said(ran(*validated(10.0, 16.0, 10.0)), "Published")
    assert not off.good
    assert "epyc-zen3 1 of 2; furthest -64% (epyc-zen3, CPU threads, 2 MB x 64, 4)" in off.text


def test_a_deviation_that_is_explained_is_no_red_one(monkeypatch: pytest.MonkeyPatch) -> None:
    why = models.Deviation("CPU threads", 2048, "for a test")
    model = replace(models.load("epyc-zen3"), deviations=(why,))
    monkeypatch.setattr(models, "load", lambda _: model)
    off = said(ran(*validated(10.0, 16.0, 10.0)), "Published")
    assert off.good and off.text.endswith("Of 1 that are further 1 are explained.")


def test_a_model_that_loses_is_no_loss_of_ours() -> None:
    rows = validated(1.0, 1.0)
    rows.append(vanilla(experiment="validation", model="epyc-zen3"))
    assert not any("Slowest" in each.text for each in verdict.statements(ran(*rows)))


def test_cells_whose_repetitions_differ_are_counted() -> None:
    restless = replace(cell("batch", 2.0), gbps=(1.97, 2.0, 2.02))
    assert "in 0 of 2 cells" in said(ran(vanilla(), cell("batch", 2.0)), "Virtual time").text
    told = said(ran(vanilla(), restless), "Virtual time").text
    assert "in 1 of 2 cells, which are marked, repetitions differ by more than 2%" in told
    # The host's clock never promised it.
    alone = replace(restless, clock="host", model=None)
    assert [each.text for each in verdict.statements(ran(alone))] == [
        "Verified: 2.0 GB, 0 mismatches."
    ]


def test_slices_that_ended_by_force_are_bounded() -> None:
    def with_forced(forced: int) -> Statement:
        guests = [{"slices": 1000, "forced": 0}, {"slices": 9000, "forced": forced}]
        return said(ran(vanilla(), environment={"simulation": guests}), "Virtual time")

    assert with_forced(10).good
    assert with_forced(10).text.endswith("; 10 of 10,000 slices ended by force.")
    assert not with_forced(11).good


@pytest.mark.parametrize("integrity", [Integrity(10**9, 3, 0), Integrity(10**9, 0, 2)])
def test_wrong_content_is_red(integrity: Integrity) -> None:
    assert not said(ran(vanilla(), integrity=integrity), "Verified").good
    assert not verdict.content_right(ran(vanilla(), integrity=integrity))
    assert verdict.content_right(ran(vanilla()))


def test_ten_sentences_at_most_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    more = [
        *scaling_rows("plain", 12.0, 26.0),
        *validated(10.0, 16.0, 10.0),
        *(vanilla(shape=(4, 8)), cell("batch", 2.0, shape=(4, 8))),
    ]
    host = host_results()
    everything = replace(host, rows=(*host.rows, *compare(more)))
    found = verdict.statements(everything)
    assert len(found) == 10
    terminal.print_verdict(everything)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("good: ", "bad: ")) for line in lines) == 10
    assert "bad: Slowest: 0.50x" in "\n".join(lines)


def test_a_stored_verdict_is_printed_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    stored = (Statement("As it was.", False),)
    terminal.print_verdict(replace(ran(vanilla()), verdict=stored))
    assert capsys.readouterr().out == "bad: As it was.\n"
