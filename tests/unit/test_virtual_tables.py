# SPDX-License-Identifier: GPL-2.0-only
"""Tables and pictures of what was measured in virtual time, on several machines and models."""

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rows import seeing
from test_report import row
from test_verdict import RIGHT, cell, ran, vanilla

from pagehaul.bench import published
from pagehaul.bench.captions import MARK
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import Table
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import Results, Row
from pagehaul.bench.tables import by_model, experiment_table, published_table
from pagehaul.bench.views import gains, scaling, validation
from pagehaul.guest import models
from pagehaul.report import chart, plots, terminal
from pagehaul.report.chart import Line, Mark
from pagehaul.report.page import page as page_of


def lines(table: Table, *heads: str) -> list[tuple[str, ...]]:
    """The named columns of a table."""
    places = [table.header.index(head) for head in heads]
    return [tuple(line[place] for place in places) for line in table.rows]


def on_machines(model: str = "plain") -> list[Row]:
    rows = []
    for cpus in (4, 2):
        rows += [
            vanilla(cpus=cpus, model=model),
            cell("batch", 2.2, cpus, model=model),
            cell("parallel", 2.0 * cpus, cpus, threads=cpus, model=model),
        ]
    return rows


def test_a_line_for_each_machine_and_a_column_for_all_its_cpus() -> None:
    table = experiment_table(ran(*on_machines()), "folio-count")
    assert table.header == ("folios", "CPUs", "vanilla, GB/s", "batch", "all CPUs")
    assert table.rows == (
        ("2 MB x 64", "2", "2.00", "1.10x", "2.00x"),
        ("2 MB x 64", "4", "2.00", "1.10x", "4.00x"),
    )
    assert "Virtual time, model plain: figures are the same on every machine" in table.caption
    assert "mean nothing" not in table.caption and MARK not in table.caption


def test_parts_of_all_cpus_have_columns_of_their_own() -> None:
    rows = [vanilla(cpus=cpus) for cpus in (8, 16)]
    for cpus in (8, 16):
        rows += [cell("parallel", 4.0, cpus, threads=cpus // part) for part in (1, 2, 4)]
    rows.append(cell("parallel", 4.0, 16, threads=3))
    table = experiment_table(ran(*rows), "folio-count")
    assert table.header[3:] == ("3 CPUs", "a quarter of the CPUs", "half of the CPUs", "all CPUs")


def test_each_model_has_a_table() -> None:
    results = ran(*on_machines(), *on_machines("grace"))
    parts = by_model(results, "folio-count")
    tables = [experiment_table(part, "folio-count") for part in parts]
    assert [table.title.partition(" (")[2] for table in tables] == ["model plain)", "model grace)"]
    assert [len(table.rows) for table in tables] == [2, 2]
    assert page_of([results]).count("<svg") == 2


def test_figures_that_do_not_repeat_are_marked_and_told() -> None:
    restless = replace(cell("batch", 2.0, cpus=2), gbps=(1.9, 2.0, 2.04))
    table = experiment_table(ran(vanilla(cpus=2), restless), "folio-count")
    assert table.rows[0][-1] == f"1.00x{MARK}"
    assert (
        f"{MARK}: repetitions differ by more than 2%: 2 MB x 64 on 2 CPUs, batch -5% to +2%."
        in (table.caption)
    )


def test_settings_of_all_columns_are_told_once() -> None:
    shared = {"batch_pages": "8192"}
    what: dict[str, Any] = {"experiment": "dma-folio-size"}
    rows = [vanilla(**what)]
    rows += [cell("dma", 2.0, channels=n, settings=shared, **what) for n in (1, 4)]
    table = experiment_table(ran(*rows), "dma-folio-size")
    assert table.header[2:] == ("1 channel", "4 channels")
    assert "All columns but those of vanilla and off: batch_pages 8192." in table.caption
    # Where one has none, it is in the head.
    table = experiment_table(ran(*rows, cell("batch", 2.0, **what)), "dma-folio-size")
    assert table.header[3] == "1 channel, batch_pages 8192"


def scaled(model: str = "plain") -> list[Row]:
    what: dict[str, Any] = {"experiment": "scaling", "model": model}
    speeds = {1: (2.0, 2.2), 2: (3.8, 4.4), 4: (6.0, 9.0)}
    rows = []
    for threads, (callers, ours) in speeds.items():
        spent: dict[str, Any] = {"threads": threads, "cpu_ns": 1000.0 * (1 + threads / 10), **what}
        rows.append(cell("callers", callers, 4, kernel="vanilla", **spent))
        rows.append(cell("parallel", ours, 4, **spent))
    gigantic: dict[str, Any] = {"shape": (1 << 20, 1), "condition": "hugetlb", **what}
    rows.append(cell("callers", 4.0, 4, kernel="vanilla", **gigantic))
    rows += [cell("parallel", 4.0 * n, 4, threads=n, **gigantic) for n in (1, 4)]
    return rows


def test_scaling_is_told_by_one_plain_caller() -> None:
    table = experiment_table(ran(*scaled()), "scaling")
    assert table.rows[:3] == (
        ("2 MB x 64", "1", "1.10x", "1.10", "1.00", "1.00x (2.00)", "1.00", "1.00"),
        ("2 MB x 64", "2", "2.20x", "1.10", "1.09", "1.90x", "0.95", "1.09"),
        ("2 MB x 64", "4", "4.50x", "1.12", "1.27", "3.00x", "0.75", "1.27"),
    )
    assert table.rows[-1] == ("hugetlb, 1 GB x 1", "4", "4.00x", "1.00", "", "", "", "")
    assert "GB/s are those of the model" in table.caption


def test_scaling_on_machines_of_several_sizes() -> None:
    rows = [replace(each, cpus=each.threads) for each in scaled() if not each.condition]
    # Only the smallest machine has had one plain caller.
    (curve,) = scaling.curves(rows)
    assert [point.speed for point in curve.ours.values()] == [1.1, 2.2, 4.5]
    assert curve.most() == 4
    # Settings that are tried are none of the kernel's own.
    tried = replace(rows[1], threads=8, settings={"placement": "fill"})
    automatic = replace(rows[1], threads=16, settings=dict(AUTOMATIC))
    (curve,) = scaling.curves([*rows, tried, automatic])
    assert list(curve.ours) == [1, 2, 4, 16]


def test_the_scaling_plot_has_both_lines_and_the_ideal_one() -> None:
    svg = plots.plot(by_model(ran(*scaled()), "scaling")[0], "scaling")
    pages, gigantic = svg.split('<div class="panel">')[1:]
    assert ">2 MB x 64<" in pages and ">hugetlb, 1 GB x 1<" in gigantic
    for label in ("ideal", "ours", "callers"):
        assert f">{label}</text>" in pages
    assert ">ideal</text>" in gigantic and ">ours</text>" in gigantic
    # One caller is a point.
    assert ">callers</text>" not in gigantic
    page = page_of([ran(*on_machines(), *scaled())])
    assert page.index("plain callers (dashed)") < page.index("folio-count: ")


def test_labels_of_the_scaling_plot_do_not_collide() -> None:
    rows = [row for row in scaled() if not row.condition]
    for number in range(6):
        rows += [replace(each, folios=65 + number) for each in rows[:6]]
    rows = [replace(each, bytes=each.folio_kb * each.folios * 1024) for each in rows]
    svg = plots.plot(by_model(ran(*rows), "scaling")[0], "scaling")
    panels = svg.split("<svg")[1:]
    assert len(panels) == 7
    for panel in panels:
        places = [
            float(text.partition('y="')[2].partition('"')[0])
            for text in panel.split("<text")[1:]
            if "ours<" in text or "callers<" in text or "ideal<" in text
        ]
        assert len(places) == 3
        places.sort()
        assert all(after - before > 8 for before, after in itertools.pairwise(places))


def test_many_labels_at_one_place_do_not_collide() -> None:
    marks = (Mark(0, 1, 1, 1, ""), Mark(1, 2, 2, 2, ""))
    many = [Line(f"a label that takes two lines, {n}", None, marks) for n in range(15)]
    panel = chart.lines("title", many, {0: "0", 1: "1"}, "")
    places = sorted(float(y) for y in re.findall(r'x="100.00%" y="(.*?)"', panel.svg))
    assert len(places) == 30
    assert all(after - before > 8 for before, after in itertools.pairwise(places))
    assert places[0] > 0 and places[-1] < float(
        panel.svg.partition('height="')[2].partition('"')[0]
    )


def validated() -> Results:
    what: dict[str, Any] = {"experiment": "validation"}
    zen: dict[str, Any] = {**what, "model": "epyc-zen3", "cpus": 16}
    speeds = {"threads": {1: 10.0, 2: 16.0, 4: 10.0}, "dma": {1: 10.0, 4: 22.0, 32: 40.0}}
    rows = []
    for method, by_count in speeds.items():
        for count, gbps in by_count.items():
            number = {"threads" if method == "threads" else "channels": count}
            # A thread's share of the copy depends on how many there are.
            rows.append(cell(method, gbps, settings={"chunk_kb": f"{count}"}, **number, **zen))
    grace: dict[str, Any] = {**what, "model": "grace", "shape": (64, 256)}
    rows += [cell("threads", 5.0 * n, threads=n, **grace) for n in (1, 4)]
    return Results({}, tuple(rows), RIGHT)


def test_published_ratios_stand_beside_those_of_the_model() -> None:
    zen, grace = by_model(validated(), "validation")
    table = experiment_table(zen, "validation")
    channels = published.by_folio_size("DMA offload")
    ratio = channels[2048, 4] / channels[2048, 1]
    assert lines(table, "published", "of them", "to one", "model", "deviation") == [
        ("CPU threads", "2", "1.60x", "1.60x", "-0%"),
        ("CPU threads", "4", "2.76x", "1.00x", "-64% !"),
        ("DMA channels", "4", f"{ratio:.2f}x", "2.20x", f"{2.2 / ratio - 1:+.0%}"),
    ]
    assert "!: more than 25%" in table.caption
    assert "Adjusted on: Garg, 2025, CPU threads" in table.caption
    cells = published.by_folio_count(64)
    (line,) = experiment_table(grace, "validation").rows
    assert line[:4] == (
        "CPU threads",
        "64 KB x 256",
        "4",
        f"{cells[256, 4] / cells[256, 1]:.2f}x",
    )


def test_deviations_have_the_number_of_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    few = models.Deviation("CPU threads", 2048, "of few folios", most_folios=1)
    every = models.Deviation("CPU threads", 2048, "of all of them")
    model = replace(models.load("epyc-zen3"), deviations=(few, every))
    monkeypatch.setattr(models, "load", lambda _: model)
    table = experiment_table(by_model(validated(), "validation")[0], "validation")
    assert ("4", "-64% ! (1)") in lines(table, "of them", "deviation")
    assert "(1) of all of them" in table.caption and "of few folios" not in table.caption


def test_placements_are_validated_by_one_thread() -> None:
    what: dict[str, Any] = {"experiment": "validation", "model": "epyc-zen3"}
    rows = [cell("batch", 10.0, **what)]
    for placement, gbps in (("spread", 29.0), ("fill", 10.0)):
        rows.append(cell("threads", gbps, threads=4, settings={"placement": placement}, **what))
    found = {each.series: each for each in validation.comparisons(rows)}
    assert found["spread"].published == pytest.approx(29.94 / 10.60)
    assert found["spread"].measured == 2.9 and found["spread"].good
    assert found["fill"].published == pytest.approx(10.99 / 10.44)


def test_what_was_not_published_is_not_compared() -> None:
    rows = [cell("threads", 5.0, threads=n, experiment="validation") for n in (1, 2)]
    # Nobody published figures of the model, and of whole batches taken by others.
    rows += [
        cell("parallel", 5.0, threads=n, experiment="validation", model="grace") for n in (1, 2)
    ]
    assert validation.comparisons(rows) == []
    table = experiment_table(by_model(ran(*rows), "validation")[0], "validation")
    assert table.rows == () and "nothing was published" in table.caption


def test_models_tell_what_they_were_adjusted_on() -> None:
    for name in published.MODELS:
        assert name in models.names()
        assert validation.adjusted_on(name)
        assert not any("the same figure" in text for text in validation.adjusted_on(name))
    assert validation.adjusted_on("plain") == ()
    assert validation.adjusted_on("gone") == ()


def judged(gbps: float, cpus: int, settings: dict[str, str] | None = None, **what: Any) -> Row:
    made = cell("parallel", gbps, cpus, threads=cpus, settings=settings, **what)
    return replace(made, experiment="judge", kernel="judge")


def test_mechanisms_are_judged_with_and_without_them() -> None:
    without = {"debug.without/caller": "1"}
    rows = [
        judged(2.2, 2),
        judged(2.0, 2, without),
        judged(4.0, 8),
        judged(5.0, 8, without),
        judged(3.2, 8, {"debug.set_folios": "8"}),
        judged(2.0, 8, {"priority": "high"}, condition="busy"),
        judged(1.0, 8, {"priority": "high", "debug.without/engine_model": "1"}, condition="busy"),
        # There is no cell of it with all mechanisms.
        judged(9.0, 16, without),
    ]
    table = experiment_table(ran(*rows), "judge")
    assert table.header == ("mechanism", "folios", "method", "2 CPUs", "8 CPUs")
    assert table.rows == (
        ("caller", "2 MB x 64", "all CPUs", "+10.0%", "-20.0%"),
        ("set_folios 8", "2 MB x 64", "all CPUs", "", "+25.0%"),
        ("engine_model", "busy, 2 MB x 64", "all CPUs, priority high", "", "+100.0%"),
    )


def test_a_switch_is_named_with_its_value_unless_it_takes_something_away() -> None:
    full = judged(2.0, 2, {"batch_pages": "8192"})
    row_ = judged(2.0, 2, {"batch_pages": "8192", "debug.without/a": "1", "chunk_kb": "32"})
    assert gains.changes(row_, full) == "a and chunk_kb 32"
    assert gains.gain(replace(row_, median_gbps=1.6), full) == pytest.approx(0.25)


def everything() -> Results:
    touch = Touch(9, 8_000, 2000, 9_100_000, Touches(90_000, 200, 2_100_000))
    hog = Hog(3, 0.5, 4e7)
    rows = [*on_machines(), *scaled(), *validated().rows]
    for cpus in (2, 16):
        rows += [
            vanilla(cpus=cpus, experiment="stall", shape=(4, 16384), touch=touch),
            cell("parallel", 9.0, cpus, experiment="stall", shape=(4, 16384), touch=touch),
            vanilla(cpus=cpus, experiment="busy", condition="busy", hog=hog, cpu_ns=1e4),
            cell("batch", 2.0, cpus, experiment="busy", condition="busy", hog=hog, cpu_ns=1e4),
            judged(2.2, cpus, shape=(4, 16384)),
            judged(2.0, cpus, {"debug.without/engine_model": "1"}, shape=(4, 16384)),
        ]
    return ran(*rows)


def test_tables_fit_on_a_terminal() -> None:
    results = everything()
    console = Console(width=400)
    seen = []
    for experiment in results.experiments():
        for part in by_model(results, experiment):
            for table in (experiment_table(part, experiment), published_table(part, experiment)):
                if table is not None:
                    bare = terminal.drawn(replace(table, title="", caption=""))
                    width = bare.__rich_measure__(console, console.options).maximum
                    assert 20 < width <= 104, table.title
                    seen.append(experiment)
    assert set(seen) == {"folio-count", "scaling", "validation", "stall", "busy", "judge"}


def test_repetitions_are_not_counted_in_virtual_time() -> None:
    results = everything()
    for experiment in ("stall", "busy"):
        assert "times" not in experiment_table(by_model(results, experiment)[0], experiment).header


def test_latencies_of_several_machines_stand_apart() -> None:
    seen = Faults((1e6,), (1e6,), (0.0,), (2e6,))
    rows = []
    for cpus in (2, 4):
        for drain, ns in (("mapped", 2e6), ("never", 1e6)):
            made = row("compaction-latency", "faults", (1.0,) * 3, settings={"lru_drain": drain})
            times = replace(seen, latency_ns=(ns,))
            rows.append(
                seeing(replace(made, cpus=cpus, model="plain", clock="virtual"), faults=times)
            )
    table = experiment_table(ran(*rows), "compaction-latency")
    assert table.header[1] == "CPUs"
    measured = [line for line in table.rows if line[3]]
    assert [line[1] for line in measured] == ["2", "4"]
    # One repetition has no interval.
    assert {line[3] for line in measured} == {"2,000"}
    assert sum(line[2] == "fault-both-32" for line in table.rows) == 1
