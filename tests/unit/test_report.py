# SPDX-License-Identifier: GPL-2.0-only
"""Tables, plots and the page, of results made up here."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rows import seen
from whole_run import whole_run

from pagehaul.bench.cell import Shape
from pagehaul.bench.choices import AUTOMATIC, forced
from pagehaul.bench.labels import shape_label
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.measures.remap import Remap
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import Integrity, Results, Row, compare
from pagehaul.bench.store import dump
from pagehaul.bench.tables import experiment_table, published_table
from pagehaul.cli.main import main
from pagehaul.report import questions
from pagehaul.report.page import page as page_of


def row(
    experiment: str,
    method: str,
    gbps: tuple[float, float, float],
    *,
    kernel: str = "pagehaul",
    threads: int = 1,
    shape: tuple[int, int] = (2048, 64),
    instructions: float | None = None,
    touch: Touch | None = None,
    remap: Remap | None = None,
    settings: dict[str, str] | None = None,
    condition: str = "",
    hog: Hog | None = None,
    pages_moved: float | None = None,
    channels: int = 0,
    cpu_ns: float | None = None,
    by_dma: int = 0,
) -> Row:
    return Row(
        experiment=experiment,
        kernel=kernel,
        method=method,
        threads=threads,
        folio_kb=shape[0],
        folios=shape[1],
        bytes=shape[0] * shape[1] * 1024,
        gbps=gbps,
        median_gbps=sorted(gbps)[1],
        vs_vanilla=None,
        vs_vanilla_min=None,
        vs_vanilla_max=None,
        counters={
            "migrate_copy.bytes_engines": by_dma,
            "migrate_copy.bytes_caller": by_dma // 2,
            "migrate_copy.bytes_helpers": by_dma // 2,
        },
        settings=settings or {},
        condition=condition,
        channels=channels,
        seen=seen(
            instructions_per_page=instructions,
            touch=touch,
            remap=remap,
            hog=hog,
            pages_moved=pages_moved,
            cpu_ns_per_page=cpu_ns,
        ),
    )


def results(mismatches: int = 0, accelerator: str = "tcg") -> Results:
    rows = []
    for experiment, shape in (
        ("folio-count", (2048, 64)),
        ("folio-size", (4, 8192)),
        ("classic", (4, 100_000)),
        ("callers", (64, 1024)),
        ("hugetlb", (2048, 32)),
    ):
        rows += [
            row(experiment, "serial", (2.0, 2.0, 2.0), kernel="vanilla", shape=shape),
            row(experiment, "serial", (2.0, 2.0, 2.0), shape=shape),
            row(experiment, "batch", (1.0, 1.9, 2.0), shape=shape),
            row(experiment, "threads", (2.0, 3.0, 4.0), threads=2, shape=shape),
        ]
    rows += [
        row(
            "stall",
            "serial",
            (2.0, 2.0, 2.0),
            kernel="vanilla",
            touch=Touch(9, 500, 8000, 9000, Touches(900, 200, 2000)),
        ),
        row(
            "stall",
            "parallel",
            (2.0, 3.0, 4.0),
            threads=2,
            touch=Touch(9, 375, 6000, 9500, Touches(800, 210, 2500)),
        ),
    ]
    speed = (2.0, 2.0, 2.0)
    rows += [
        row("first-folio", "serial", speed, kernel="vanilla", remap=Remap(9, 4e5, 6e6, 5e6)),
        row(
            "first-folio",
            "batch",
            (1.0, 1.0, 1.0),
            remap=Remap(9, 1e6, 6e6, 4e6),
            settings={"batch_pages": "2048"},
        ),
    ]
    for kernel, gbps, pages in (("vanilla", 2.0, 32768.0), ("pagehaul", 3.0, 16384.0)):
        rows.append(
            row(
                "reasons",
                "serial",
                (gbps, gbps, gbps),
                kernel=kernel,
                condition="demotion",
                pages_moved=pages,
            )
        )
    busy, shape = "busy", (64, 256)
    rows += [
        row("busy", "serial", speed, kernel="vanilla", shape=shape, condition="idle"),
        row("busy", "parallel", (3.0, 3.0, 3.0), threads=2, shape=shape, condition="idle"),
        row(
            "busy",
            "serial",
            (1.0, 1.0, 1.5),
            kernel="vanilla",
            shape=shape,
            condition=busy,
            hog=Hog(3, 0.5, 4e6),
            cpu_ns=1000.0,
        ),
        row(
            "busy",
            "parallel",
            (0.5, 1.1, 1.2),
            threads=2,
            shape=shape,
            condition=busy,
            hog=Hog(3, 0.45, 5e6),
            cpu_ns=1100.0,
        ),
        row(
            "busy",
            "parallel",
            (0.5, 0.9, 1.2),
            threads=2,
            shape=shape,
            condition=busy,
            hog=Hog(3, 0.4, 6e6),
            settings={"priority": "high"},
        ),
    ]
    rows.append(
        row("callers", "callers", (1.0, 5.0, 6.0), kernel="vanilla", threads=4, shape=(64, 1024))
    )
    for method, count in (("serial", 1005.0), ("batch", 1020.0)):
        rows.append(row("path-length", method, (1.0, 1.0, 1.0), shape=(4, 8), instructions=count))
    rows.append(
        row(
            "path-length",
            "serial",
            (1.0, 1.0, 1.0),
            kernel="vanilla",
            shape=(4, 8),
            instructions=1000.0,
        )
    )
    rows.append(row("placement", "serial", speed, kernel="vanilla"))
    for placement, middle in (("spread", 4.0), ("fill", 3.0)):
        rows.append(
            row(
                "placement",
                "parallel",
                (2.0, middle, 5.0),
                threads=4,
                settings={"placement": placement},
            )
        )
    for experiment in ("dma-folio-size", "dma-folio-count", "cpu-freed"):
        rows += [
            row(experiment, "serial", speed, kernel="vanilla", cpu_ns=2000.0),
            row(
                experiment,
                "dma",
                (1.0, 1.0, 1.0),
                channels=4,
                cpu_ns=500.0,
                by_dma=3 * (128 << 20) // 2,
                settings={"batch_pages": "8192"},
            ),
        ]
    environment = {
        "date": "2026-11-20",
        "kernels": {"vanilla": "6.12.1", "pagehaul": "6.12.1"},
        "machines": {
            "parallel": {"accelerator": accelerator},
            "icount": {"accelerator": accelerator},
            "dies": {"accelerator": accelerator},
            "dma": {"accelerator": accelerator},
        },
        "notes": ["a <note>"],
    }
    return Results(environment, compare(rows), Integrity(10**9, mismatches, 0))


def test_shapes_are_named_for_people() -> None:
    assert shape_label(4, 100_000) == "4 KB x 100,000"
    assert shape_label(2048, 1) == "2 MB x 1"
    assert shape_label(1024 * 1024, 2) == "1 GB x 2"


def test_an_experiments_table() -> None:
    table = experiment_table(results(), "folio-count")
    assert table.header == ("folios", "vanilla, GB/s", "off", "batch", "2 CPUs, copy")
    assert table.rows == (
        (
            "2 MB x 64",
            "2.00 (2.00-2.00)",
            "1.00x (1.00-1.00)",
            "0.95x (0.50-1.00)",
            "1.50x (1.00-2.00)",
        ),
    )


def test_the_kernels_own_choice_is_compared_with_the_best_other_one() -> None:
    speeds = {"serial": 2.0, "batch": 3.0, "threads": 4.0, "parallel": 1.0}
    rows = [row("policy", "serial", (9.0, 9.0, 9.0), kernel="vanilla")]
    for method, gbps in speeds.items():
        helped = method in ("threads", "parallel")
        settings = forced(Shape(2048, 64), 2) if helped else None
        rows.append(row("policy", method, (gbps,) * 3, threads=1 + helped, settings=settings))
    rows.append(row("policy", "parallel", (3.0,) * 3, threads=2, settings=dict(AUTOMATIC)))
    made = Results({}, compare(rows), Integrity(1, 0, 0))
    table = experiment_table(made, "policy")
    assert table.rows[0][-1] == "0.75 (2 CPUs, copy)"
    assert "owes something to chance" in table.caption
    # Without one of the two there is nothing to compare.
    alone = Results({}, compare([rows[0], rows[-1]]), Integrity(1, 0, 0))
    assert experiment_table(alone, "policy").rows[0][-1] == ""
    fixed = Results({}, compare(rows[:-1]), Integrity(1, 0, 0))
    assert experiment_table(fixed, "policy").header[-1] == "2 CPUs, forced"


def test_callers_of_vanilla_stand_before_pagehaul() -> None:
    table = experiment_table(results(), "callers")
    assert table.header[1:3] == ("vanilla, GB/s", "vanilla, 4 callers")
    assert table.rows[0][2] == "2.50x (0.50-3.00)"


def test_path_length_is_compared_by_instructions() -> None:
    table = experiment_table(results(), "path-length")
    assert table.rows == (
        ("4 KB x 8", "1,000", "1,005 (1.0050)", "1,020 (1.0200)", "1,000", "9 of 9"),
    )


def test_stalls_are_compared_by_all_touches() -> None:
    table = experiment_table(results(), "stall")
    shape = "2 MB x 64"
    assert table.rows == (
        (shape, "vanilla", "900", "0.2", "2.0 (1.00)", "9.0", "9", "0.5 (1.00)", "1.00x"),
        (shape, "2 CPUs", "800", "0.2", "2.5 (1.25)", "9.5", "9", "0.4 (0.75)", "1.50x"),
    )
    assert "Accelerator: tcg" in table.caption


def test_stalls_of_which_the_longest_were_kept() -> None:
    ours, base = Touch(9, 375, 6000, 9500), Touch(9, 500, 8000, 9000)
    speed = (2.0, 2.0, 2.0)
    rows = [
        row("stall", "serial", speed, kernel="vanilla", touch=base),
        row("stall", "parallel", speed, threads=2, touch=ours),
        row("stall", "threads", speed, threads=2, touch=replace(ours, all=Touches(5, 1, 2))),
    ]
    table = experiment_table(Results({}, compare(rows), Integrity(1, 0, 0)), "stall")
    shape, longest = "2 MB x 64", ("9.5", "9", "0.4 (0.75)", "1.00x")
    assert table.rows[1:] == (
        (shape, "2 CPUs", "", "", "", *longest),
        (shape, "2 CPUs, copy", "5", "0.0", "0.0", *longest),
    )


def test_first_and_last_folios_are_compared_with_vanillas() -> None:
    table = experiment_table(results(), "first-folio")
    shape, moves = "2 MB x 64", "9"
    call = 2048 * 64 * 1024 / 2.0 / 1000
    vanilla = (f"{call:,.0f} (1.00)", "400 (1.00)", "6,000 (1.00)", "5,000 (1.00)")
    ours = (f"{2 * call:,.0f} (2.00)", "1,000 (2.50)", "6,000 (1.00)", "4,000 (0.80)")
    assert table.rows == (
        (shape, "vanilla", moves, *vanilla),
        (shape, "batch, batch_pages 2048", moves, *ours),
    )


def test_reasons_tell_how_much_moved_in_which_time() -> None:
    table = experiment_table(results(), "reasons")
    ms = 32768 * 4096 / 2.0 / 1e6
    assert table.rows == (
        (
            "demotion",
            "2 MB x 64",
            "vanilla",
            "3",
            "32,768 of 32,768",
            f"{ms:.1f}",
            "2.00 (2.00-2.00)",
        ),
        (
            "demotion",
            "2 MB x 64",
            "off",
            "3",
            "16,384 of 32,768",
            f"{ms / 3:.1f}",
            "1.50x (1.50-1.50)",
        ),
    )


def test_busy_machines_and_their_hogs() -> None:
    table = experiment_table(results(), "busy")
    assert [row[1:] for row in table.rows] == [
        ("idle", "vanilla", "3", "2.00 (2.00-2.00)", "", "", ""),
        ("idle", "2 CPUs", "3", "1.50x (1.50-1.50)", "", "", ""),
        ("busy", "vanilla", "3", "1.00 (1.00-1.50)", "1,000 (1.000)", "50%", "4.0 (1.00)"),
        ("busy", "2 CPUs", "3", "1.10x (0.50-1.20)", "1,100 (1.100)", "45%", "5.0 (1.25)"),
        ("busy", "2 CPUs, priority high", "3", "0.90x (0.50-1.20)", "", "40%", "6.0 (1.50)"),
    ]


def test_both_published_busy_tables_stand_beside_the_measured_priorities() -> None:
    table = published_table(results(), "busy")
    assert table is not None
    assert table.header[:5] == ("folios", "priority", "whose", "1 thr.", "2 thr.")
    cells = {row[:3]: row[3:] for row in table.rows}
    assert cells["64 KB x 256", "normal", "here"] == ("", "1.10x", "", "", "", "")
    assert cells["64 KB x 256", "normal", "published"] == (
        "0.57x",
        "0.67x",
        "0.01x",
        "0.65x",
        "0.62x",
        "0.56x",
    )
    assert cells["64 KB x 256", "high", "here"][1] == "0.90x"
    assert cells["64 KB x 256", "high", "published"][:2] == ("0.75x", "0.63x")
    # Published, but not measured.
    assert ("64 KB x 32", "normal", "here") not in cells


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
def test_emulated_throughputs_carry_a_warning(accelerator: str) -> None:
    caption = experiment_table(results(accelerator=accelerator), "folio-count").caption
    assert f"Accelerator: {accelerator}" in caption
    assert ("mean nothing by themselves" in caption) == (accelerator == "tcg")


@pytest.mark.parametrize("accelerator", ["tcg", "none"])
def test_cpu_time_is_told_beside_what_channels_copied(accelerator: str) -> None:
    table = experiment_table(results(accelerator=accelerator), "cpu-freed")
    vanilla, dma = table.rows
    assert vanilla[3:] == ("0%", "2,000", "1.00")
    assert dma[1:] == (
        "4 channels, batch_pages 8192",
        "0.50x (0.50-0.50)",
        "50%",
        "500",
        "0.25",
    )
    # Channels of a real machine are no threads.
    assert ("softdma" in table.caption) == (accelerator == "tcg")


def test_published_dma_figures_stand_beside_measured_ones() -> None:
    sizes = published_table(results(), "dma-folio-size")
    assert sizes is not None
    assert sizes.header[-1] == "16 chan."
    large = {line[1]: line[2:] for line in sizes.rows if line[0] == "2 MB"}
    assert large["published, GB/s"][-1] == "55.45"
    assert large["here"] == ("", "", "0.50x", "", "")
    counts = published_table(results(), "dma-folio-count")
    assert counts is not None
    measured = {line[0]: line[1:] for line in counts.rows}
    assert measured["2 MB x 64"] == ("0.50x", "9.90")
    assert measured["2 MB x 8,192"] == ("", "12.03")


@pytest.mark.parametrize("accelerator", ["tcg", "kvm", "none"])
def test_placements_stand_side_by_side_and_carry_a_warning(accelerator: str) -> None:
    table = experiment_table(results(accelerator=accelerator), "placement")
    assert table.header[2:] == ("4 CPUs, placement spread", "4 CPUs, placement fill")
    assert table.rows[0][2:] == ("2.00x (1.00-2.50)", "1.50x (1.00-2.50)")
    assert ("no caches" in table.caption) == (accelerator != "none")


def test_published_ratios_stand_beside_measured_ones() -> None:
    table = published_table(results(), "folio-count")
    assert table is not None
    lines = {line[1]: line[2:] for line in table.rows if line[0] == "2 MB x 64"}
    # One CPU is a batch that the caller copies alone.
    assert lines["here"][0] == "0.95x"
    assert lines["here, copy"][:3] == ("0.95x", "1.50x", "")
    # 1, 2, 4, 8, 16, 32 threads by 9.40 GB/s of vanilla.
    assert lines["published"] == ("0.78x", "1.48x", "3.23x", "5.53x", "8.18x", "8.45x")
    assert "NVIDIA Grace" in table.caption
    sizes = published_table(results(), "folio-size")
    assert sizes is not None
    (base,) = (line[2:] for line in sizes.rows if line[:2] == ("4 KB", "published, GB/s"))
    assert base == ("1.72", "1.93", "2.00", "2.07", "2.04")
    classic = published_table(results(), "classic")
    assert classic is not None
    assert [line[1:] for line in classic.rows[:3]] == [
        ("here, batch", "0.95x"),
        ("here, 2 CPUs, copy", "1.50x"),
        ("published, Vanilla", "1.57 GB/s"),
    ]
    placement = published_table(results(), "placement")
    assert placement is not None
    assert placement.rows[2] == ("4", "2.00x", "1.50x", "29.94", "10.99")
    assert published_table(results(), "callers") is None


class _Checker(HTMLParser):
    """Counts elements, and sees that they are closed in order."""

    VOID = ("meta", "br", "path", "use", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_complete_in_itself() -> None:
    text = page_of([results()])
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.count["figure"] == 14
    # Two of them, first-folio and busy, are of two quantities.
    assert checker.count["svg"] == 16
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "#010203" not in text
    # Nothing is fetched: no address but the names of XML's own vocabularies.
    addresses = set(re.findall(r"https?://[^\"' )<]+", text))
    assert all(
        re.match(r"https?://(www\.w3\.org|matplotlib\.org|purl\.org|creativecommons\.org)", address)
        for address in addresses
    )
    assert not re.search(r"<(script|link|img)\b", text)
    assert "a &lt;note&gt;" in text


def test_what_the_page_refers_to_is_there_once() -> None:
    text = page_of([results(), results()])
    names = re.findall(r' id="([^"]+)"', text)
    assert len(names) == len(set(names))
    referred = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#(.+?)\)", text))
    assert referred and referred <= set(names)


def test_what_tables_share_is_told_once() -> None:
    text = page_of([results()])
    shared = "only the ratios, measured alternately in one run, do."
    assert shared in experiment_table(results(), "folio-count").caption
    assert shared in experiment_table(results(), "hugetlb").caption
    assert text.count(shared) == 1
    sentences = [
        part
        for caption in re.findall(r'<p class="caption">(.*?)</p>', text)
        for part in re.split(r"(?<=\.) ", re.sub(r" ?Notes? <a.*", "", caption))
        if len(part) > 20
    ]
    repeated = {part for part in sentences if sentences.count(part) > 1}
    assert repeated == set()
    # One table alone has its caption whole.
    (number,) = re.findall(r'<li id="note-(\d+)">GB/s under TCG', text)
    assert f'href="#note-{number}"' in text[: text.index(shared)]


def test_the_page_goes_from_verdict_to_questions_to_machines() -> None:
    text = page_of([results()])
    order = [
        '<ul class="verdict">',
        "<figure",
        "<h2>How fast is it?</h2>",
        "<h2>Does it ever lose?</h2>",
        "<h2>What does it cost others?</h2>",
        "<h2>What does DMA give?</h2>",
        "All published throughputs",
        "<details><summary>Notes</summary>",
        "<h2>Machine</h2>",
        "machine parallel: accelerator tcg",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    # All else is folded: a table a question is not.
    outside = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    assert outside.count("<table>") == 4
    assert outside.count("<figure") == 1


def test_each_question_has_a_table_that_answers_it() -> None:
    tables = questions.tables(results())
    assert list(tables) == [questions.FAST, questions.LOSES, questions.COSTS, questions.DMA]
    fast = {line[0]: line[1:] for line in tables[questions.FAST].rows}
    assert fast["folio-count"] == ("3", "0.95x", "1.00x", "1.50x", "2 MB x 64, 2 CPUs, copy")
    assert "dma-folio-size" not in fast and "path-length" not in fast
    loses = {line[0]: line[1:] for line in tables[questions.LOSES].rows}
    assert loses["folio-count"] == ("3", "1", "1", "0", "0.95x", "2 MB x 64, batch")
    # Its repetitions go from 0.5 to 1.2.
    assert loses["busy"][:4] == ("3", "1", "0", "2")
    costs = {line[:2]: line[2:] for line in tables[questions.COSTS].rows}
    assert costs["stall", "Wait of a reader, 99%"] == (
        *("1.25x", "1.25x", "1.25x"),
        "2 MB x 64, 2 CPUs: 2.5 us",
    )
    assert costs["busy", "What hogs lose in a move"][2] == "1.50x"
    dma = {line[0]: line[1:] for line in tables[questions.DMA].rows}
    assert dma["cpu-freed"][:4] == ("1", "0.50x", "0.50x", "0.25x to 0.25x")


def test_what_was_not_asked_has_no_table() -> None:
    made = results()
    few = replace(made, rows=tuple(made.of("folio-count")))
    assert list(questions.tables(few)) == [questions.FAST, questions.LOSES]
    assert "What does DMA give?" not in page_of([few])


def test_a_mismatch_is_seen() -> None:
    page = page_of([results(mismatches=3)])
    wrong = "3 words are wrong and 0 folios did not move; 1.0 GB were compared."
    assert f'<li class="bad">{wrong}</li>' in page
    right = "Every page arrived with its content; 1.0 GB were compared."
    assert f'<li class="good">{right}</li>' in page_of([results()])


def test_the_page_begins_with_verdict_and_picture() -> None:
    page = page_of([results()])
    places = [page.index(part) for part in ('<ul class="verdict">', "<svg", "folio-count: ")]
    assert places == sorted(places)
    # It is of folio-count, whose section has no second one.
    assert "<svg" not in page[places[2] : page.index("folio-size: ")]


def test_profiles_have_a_place() -> None:
    profiles = [{"title": "2 MB <x> 64", "html": "<p>copy_mc 40%</p>"}, {"title": "nothing"}]
    made = results()
    page = page_of([replace(made, environment={**made.environment, "profiles": profiles})])
    assert "<h2>Profiles</h2>\n<h3>2 MB &lt;x&gt; 64</h3>\n<p>copy_mc 40%</p>" in page
    assert "Profiles" not in page_of([made])


def test_the_verb_prints_tables_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(results(), tmp_path / "r.json")
    assert main(["report", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]) == 0
    out = capsys.readouterr().out
    assert "1.50x (1.00-2.00)" in out
    assert "Grace" in out
    assert "Every page arrived with its content" in out
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_wrong_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text('{"schema": 2}')
    assert main(["report", str(tmp_path / "r.json")]) == 1
    assert "environment is missing" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_told_before_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(results(), tmp_path / "r.json")
    words = ["report", str(tmp_path / "r.json"), "--html", str(tmp_path / "missing" / "r.html")]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out == "" and "its directory does not exist" in said.err


def test_the_page_of_a_whole_run_is_made_in_a_moment() -> None:
    made = whole_run(model=None, quick=False)
    begin = time.process_time()
    text = page_of([made])
    # It took minutes when each figure looked through all rows.
    assert time.process_time() - begin < 30
    names = {name for name in made.experiments() if f">{name}: " not in text}
    assert names == set()
