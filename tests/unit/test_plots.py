# SPDX-License-Identifier: GPL-2.0-only
"""Pictures: which quantity, on which axes, in which colours."""

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from test_report import results, row
from test_virtual_tables import cell, ran, vanilla
from whole_run import whole_run

from pagehaul.bench import captions
from pagehaul.bench.choices import AUTOMATIC
from pagehaul.bench.labels import Column
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.measures.hog import LOST
from pagehaul.bench.measures.reads import MOVED, OWN
from pagehaul.bench.measures.remap import FIRST, LAST
from pagehaul.bench.measures.touch import WAIT
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import figure
from pagehaul.bench.row import Results, Row, compare
from pagehaul.bench.tables import by_model, view_of
from pagehaul.bench.views.gains import GAIN
from pagehaul.report import chart, palette, plots
from pagehaul.report.chart import Line, Mark

HEADS = [
    Column("vanilla", "serial", 1),
    Column("vanilla", "callers", 4),
    Column("pagehaul", "batch", 1),
    Column("pagehaul", "batch", 1, (("batch_pages", "8192"),)),
    Column("pagehaul", "threads", 4),
    Column("pagehaul", "parallel", 4, (("placement", "spread"),)),
    Column("pagehaul", "parallel", 4, (("placement", "fill"),)),
    Column("pagehaul", "pool", 4),
    Column("pagehaul", "dma", 1, (), 4),
    Column("pagehaul", "hybrid", 1, (), 4),
]


LONG = "a reason with a name that is longer than a narrow page is wide"


def varied() -> list[Row]:
    """Rows of many shapes, several cells of one size among them, and labels that are long."""
    rows = []
    for folio_kb, counts in ((64, (1, 8, 64, 256, 1024)), (2048, (1, 4, 16, 64))):
        for number, folios in enumerate(counts):
            shape = (folio_kb, folios)
            rows += [vanilla(shape=shape), cell("batch", 1.9, shape=shape)]
            rows.append(cell("threads", 2.0 + number / 2, threads=4, shape=shape))
            rows.append(cell("parallel", 2.1 + number, threads=4, shape=shape))
    for number, folio_kb in enumerate((4, 64, 512, 2048)):
        what: dict[str, Any] = {"experiment": "folio-size", "shape": (folio_kb, 4096 // folio_kb)}
        rows += [vanilla(**what), cell("batch", 2.2, **what)]
        rows.append(cell("parallel", 4.0 - number / 2, threads=4, **what))
    for shape in ((4, 1), (4, 8), (4, 32), (4, 1024), (64, 512), (2048, 16)):
        what = {"experiment": "policy", "shape": shape}
        rows += [vanilla(**what), cell("serial", 2.0, **what)]
        rows.append(cell("parallel", 6.0, threads=4, settings=dict(AUTOMATIC), **what))
        rows.append(cell("parallel", 1.0, threads=4, settings={"batch_pages": "65536"}, **what))
    for reason in (
        "demotion",
        "promotion",
        "a reason with a name that is longer than a narrow page is wide",
    ):
        what = {"experiment": "reasons", "condition": reason, "pages_moved": 32.0}
        rows.append(vanilla(**what))
        settings = {"batch_pages": "8192", "placement": "spread", "priority": "high"}
        rows.append(cell("parallel", 200.0, threads=4, settings=settings, **what))
        rows.append(cell("batch", 0.01, **what))
    return rows


def drawn(made: Results, experiment: str) -> str:
    return plots.plot(by_model(made, experiment)[0], experiment)


def strokes(text: str, kind: str) -> list[tuple[float, float, float, float]]:
    """The ends of all strokes of a class: from left to right in percent, down in pixels."""
    pattern = rf'<line class="{kind}" x1="(.*?)%" y1="(.*?)" x2="(.*?)%" y2="(.*?)"/>'
    return [(float(a), float(b), float(c), float(d)) for a, b, c, d in re.findall(pattern, text)]


def test_no_line_is_vertical_where_several_cells_have_one_size() -> None:
    made = ran(*varied())
    for experiment in made.experiments():
        for kind in ("solid", "dash"):
            for x1, _, x2, _ in strokes(drawn(made, experiment), kind):
                assert x1 < x2, experiment
    counted = [
        replace(
            each, clock="instructions", model=None, seen={"instructions_per_page": 1000.0 + number}
        )
        for number, each in enumerate(varied())
        if each.experiment == "policy"
    ]
    path = Results(
        {}, compare([replace(each, experiment="path-length") for each in counted]), made.integrity
    )
    text = drawn(path, "path-length")
    assert "folios of 4 KB" in text and "Instructions for a page" in text
    assert strokes(text, "solid")
    assert all(x1 < x2 for x1, _, x2, _ in strokes(text, "solid"))


def test_cells_that_were_measured_twice_are_dots() -> None:
    rows = [row for row in varied() if row.experiment == "folio-size"]
    text = drawn(ran(*rows, *rows), "folio-size")
    assert strokes(text, "solid") == [] and text.count("<circle") == 16


def test_several_figures_at_one_place_are_no_line() -> None:
    marks = (Mark(1, 2, 2, 2, ""), Mark(1, 3, 3, 3, ""))
    with pytest.raises(ValueError, match="several figures at one place"):
        chart.lines("title", [Line("ours", None, marks)], {1: "1"}, "")


def test_a_single_place_is_in_the_middle() -> None:
    marks = (Mark(4, 2, 2, 2, ""),)
    panel = chart.lines("title", [Line("ours", None, marks)], {4: "4"}, "")
    assert '<line class="tick" x1="49.00%"' in panel.svg


@pytest.mark.parametrize(
    ("clock", "accelerator", "expected"),
    [("host", "none", True), ("host", "kvm", False), ("host", "tcg", False)],
)
def test_a_real_machine_has_no_accelerator(clock: str, accelerator: str, expected: bool) -> None:
    environment = {"machines": {"dies": {"accelerator": accelerator}}}
    part = Part(
        "reasons",
        "",
        "dies",
        [replace(row("reasons", "serial", (1, 1, 1)), clock=clock)],
        environment,
    )
    assert captions.real(part) is expected


def test_ratios_are_on_a_logarithmic_axis_with_one_drawn() -> None:
    made = ran(*varied())
    for experiment in made.experiments():
        text = drawn(made, experiment)
        assert len(strokes(text, "one")) == text.count("<svg"), experiment
    marks = tuple(Mark(at, 2.0**at, 2.0**at, 2.0**at, "") for at in (-1, 0, 1, 2))
    panel = chart.lines("title", [Line("ours", None, marks)], {m.at: "" for m in marks}, "")
    ys = [y for _, y, _, _ in strokes(panel.svg, "solid")] + [strokes(panel.svg, "solid")[-1][3]]
    steps = [one - other for one, other in itertools.pairwise(ys)]
    # Twice as fast is as far up everywhere.
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.5, 8.0, [0.5, 1, 2, 4, 8]),
        (0.994, 1.012, [0.995, 1, 1.005, 1.01]),
        (0.9, 1.6, [1, 1.2, 1.4, 1.6]),
        (1 / 64, 4096.0, [0.0625, 1, 16, 256, 4096]),
    ],
)
def test_ticks_are_round(low: float, high: float, wanted: list[float]) -> None:
    found = chart.ticks(low, high)
    assert set(wanted) <= set(found)
    assert 1 in found and len(found) <= 7


def test_each_plot_is_of_what_its_table_is_about() -> None:
    made = results()
    expected = {
        "stall": "Wait of a reader, 99%",
        "first-folio": "Until the first folio is back",
        "busy": "What hogs lose in a move",
        "cpu-freed": "CPU time for a page",
        "path-length": "Instructions for a page",
        "folio-count": "Speed",
        "reasons": "Speed",
        "dma-folio-size": "Speed",
    }
    for experiment, name in expected.items():
        assert f'<div class="head">{name} (' in drawn(made, experiment), experiment
    # 2.5 us for 2.0, 5.0 ms for 4.0, 500 ns for 2,000.
    for experiment, told, ratio in (
        ("stall", "2.5 us", "1.25x"),
        ("busy", "5.0 ms", "1.25x"),
        ("cpu-freed", "0.5 us", "0.25x"),
        ("first-folio", "1,000.0 us", "2.5x"),
    ):
        text = drawn(made, experiment)
        assert f">{told}<" in text and f": {ratio}</title>" in text, experiment


def test_reads_are_drawn_by_what_they_take() -> None:
    names = [each.name for each in view_of("non-temporal", []).quantities]
    assert names == ["Speed (above 1 is faster)"]
    assert [each.name for each in view_of("judge", varied()).quantities] == [GAIN.name]


def test_what_is_not_known_of_both_is_not_drawn() -> None:
    rows = compare(
        [row("busy", "serial", (2.0,) * 3, kernel="vanilla"), row("busy", "batch", (1.0,) * 3)]
    )
    for quantity in (WAIT, LOST, FIRST, LAST):
        assert figure(rows[1], rows, quantity) is None
    assert figure(rows[1], rows, OWN) is None
    assert figure(rows[1], rows, MOVED) is None
    assert figure(rows[1], rows[1:], WAIT) is None


@pytest.mark.parametrize(("model", "quick"), [(None, False), ("plain", True)])
def test_every_experiment_has_a_picture(model: str | None, quick: bool) -> None:
    made = whole_run(model=model, quick=quick)
    found = {each for each in made.experiments() if "<circle" in drawn(made, each)}
    assert set(made.experiments()) == found
    for experiment in found:
        for svg in re.findall(r"<svg.*?</svg>", drawn(made, experiment), re.S):
            assert '<line class="one"' in svg, experiment


def test_mechanisms_are_drawn_by_what_they_gain() -> None:
    what: dict[str, Any] = {"experiment": "judge", "kernel": "judge", "threads": 4}
    full = cell("parallel", 3.0, **what)
    without = cell("parallel", 2.0, settings={"debug.without/flush": "1"}, **what)
    text = drawn(ran(full, without), "judge")
    assert "judge, by the figure without the mechanism" in text
    assert ": 1.5x</title>" in text and text.count("<circle") == 1
    assert ">flush, " in text and ">1.50x</text>" in text


def test_faults_are_drawn_by_the_other_kernel() -> None:
    def row(kernel: str, ns: float, **what: Any) -> Row:
        seen = Faults((ns,), (2 * ns,), (ns,), (0.0,))
        made = cell("faults", 1.0, kernel=kernel, **what)
        return replace(made, seen={"faults": seen})

    for experiment, panels in (("pft", 2), ("kernbench", 3)):
        what: dict[str, Any] = {"experiment": experiment, "condition": "16kB"}
        text = drawn(
            ran(row("pagehaul", 4e9, **what), row("pcp-compound", 3e9, **what)), experiment
        )
        assert f"{experiment}, by the figure without kept compound pages" in text
        assert text.count("<svg") == text.count(": 0.75x</title>") == panels


def test_latency_is_drawn_by_that_with_every_drain() -> None:
    rows = []
    for drain, ns in (("mapped", 4e6), ("mlocked", 3e6), ("never", 1e6)):
        what: dict[str, Any] = {"experiment": "compaction-latency", "kernel": "judge"}
        made = cell("faults", 1.0, settings={"lru_drain": drain}, **what)
        rows.append(replace(made, seen={"faults": Faults((1.0,), (1.0,), (0.0,), (ns,))}))
    text = drawn(ran(*rows), "compaction-latency")
    assert text.count("<circle") == 2
    assert ": 0.75x</title>" in text and ": 0.25x</title>" in text


def test_one_colour_means_one_thing_in_every_plot() -> None:
    made = ran(*varied())
    seen: dict[str, set[str]] = {}
    for experiment in made.experiments():
        for style, label in re.findall(
            r'<g class="hue" style="(.*?)">.*?<text[^>]*>(batch|4 CPUs, copy|4 CPUs)</text>',
            drawn(made, experiment),
        ):
            seen.setdefault(label, set()).add(style)
    assert {label: len(styles) for label, styles in seen.items()} == {
        "batch": 1,
        "4 CPUs, copy": 1,
        "4 CPUs": 1,
    }
    assert len(set.union(*seen.values())) == 3
    # The kernel's own choice is what happens by default.
    automatic = Column("pagehaul", "parallel", 4, tuple(AUTOMATIC.items()))
    assert palette.colour(automatic) == palette.colour(Column("pagehaul", "parallel", 4))


def test_columns_of_one_plot_differ_in_colour() -> None:
    assert len({palette.colour(head) for head in HEADS}) == len(HEADS)


@pytest.mark.parametrize("threads", [1, 2, 4, 8, 16, 64, 0, -1, -2])
def test_colours_can_be_read_as_text_on_both_papers(threads: int) -> None:
    for head in HEADS:
        colour = palette.colour(head._replace(threads=threads, channels=0))
        assert palette.contrast(colour.light, palette.LIGHT_PAPER) >= 4.5
        assert palette.contrast(colour.dark, palette.DARK_PAPER) >= 4.5


def test_lines_and_dots_are_named_where_they_are() -> None:
    made = ran(*varied())
    text = drawn(made, "folio-count")
    for label in ("batch", "4 CPUs, copy", "4 CPUs", "published, 4 thr."):
        assert f">{label}</text>" in text
    assert "<legend" not in text and "folios of 64 KB" in text and "folios of 2 MB" in text
    # A long name is broken, not cut.
    reasons = drawn(made, "reasons")
    parts = re.findall(r"<text (?!class=.group)[^>]*>(.*?)</text>", reasons)
    assert max(map(len, parts)) <= chart.LABEL_LETTERS
    assert LONG in " ".join(re.findall(r'<text class="group"[^>]*>(.*?)</text>', reasons))
    assert "spread" in " ".join(parts) and "high" in " ".join(parts)
    assert "100.00x" in parts and "0.01x" in parts


def test_long_lists_of_dots_are_several_panels() -> None:
    rows = []
    for number in range(40):
        what: dict[str, Any] = {"experiment": "reasons", "condition": f"reason {number}"}
        rows += [vanilla(pages_moved=1.0, **what), cell("batch", 2.0, pages_moved=1.0, **what)]
    text = drawn(ran(*rows), "reasons")
    assert text.count("<svg") == 2
    assert all(f">reason {number}, 2 MB x 64<" in text for number in range(40))


def test_settings_of_all_columns_are_told_in_the_title() -> None:
    what: dict[str, Any] = {"experiment": "dma-folio-size"}
    rows = [vanilla(**what)]
    rows += [cell("dma", 2.0, channels=n, settings={"batch_pages": "8192"}, **what) for n in (1, 4)]
    text = drawn(ran(*rows), "dma-folio-size")
    assert "; batch_pages 8192</figcaption>" in text
    assert ">1 channel</text>" in text and ">4 channels</text>" in text
