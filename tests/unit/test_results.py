# SPDX-License-Identifier: GPL-2.0-only
"""The JSON schema: what is accepted, what is refused and why, and the ratios."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagehaul.bench.measures.hog import Hog, hog_of
from pagehaul.bench.measures.reads import Reads, reads_of
from pagehaul.bench.measures.remap import Remap, remap_of
from pagehaul.bench.measures.touch import Touch, Touches, touch_of
from pagehaul.bench.row import Integrity, Results, Row, Statement, compare
from pagehaul.bench.store import dump, entry_of, load, parse
from pagehaul.errors import PagehaulError

VANILLA = Row(
    experiment="folio-count",
    kernel="vanilla",
    method="serial",
    threads=1,
    folio_kb=64,
    folios=16,
    bytes=64 * 1024 * 16,
    gbps=(1.0, 2.0, 3.0),
    median_gbps=2.0,
    vs_vanilla=None,
    vs_vanilla_min=None,
    vs_vanilla_max=None,
    counters={"vmstat.pgmigrate_success": 48},
)
THREADS = replace(
    VANILLA, kernel="pagehaul", method="threads", threads=2, gbps=(2.0, 3.0, 6.0), median_gbps=3.0
)


def document() -> dict[str, Any]:
    """A correct file, as JSON."""
    rows = compare([VANILLA, THREADS])
    return {
        "schema": 2,
        "environment": {"quick": True},
        "rows": [json.loads(json.dumps(entry_of(row))) for row in rows],
        "integrity": {"bytes_verified": 4096, "mismatches": 0},
        "verdict": [{"text": "Nothing is slower.", "good": True}],
    }


def test_ratios_are_medians_by_the_median_of_vanillas_serial_row() -> None:
    vanilla, threads = compare([VANILLA, THREADS])
    assert vanilla.vs_vanilla == 1.0
    assert (vanilla.vs_vanilla_min, vanilla.vs_vanilla_max) == (0.5, 1.5)
    assert threads.vs_vanilla == 1.5
    assert (threads.vs_vanilla_min, threads.vs_vanilla_max) == (1.0, 3.0)


@pytest.mark.parametrize("other", [{"cpus": 4}, {"model": "grace"}, {"clock": "instructions"}])
def test_rows_of_other_machines_are_not_compared(other: dict[str, Any]) -> None:
    vanilla = replace(VANILLA, cpus=2, model="plain", clock="virtual")
    alike = replace(THREADS, cpus=2, model="plain", clock="virtual")
    # Measured first, and yet no baseline of what another machine measured.
    faster = replace(vanilla, gbps=(8.0,), median_gbps=8.0, **other)
    elsewhere = replace(alike, cpus=9)
    rows = compare([faster, vanilla, alike, elsewhere])
    assert [row.vs_vanilla for row in rows] == [1.0, 1.0, 1.5, None]


def test_one_caller_is_a_baseline() -> None:
    one = replace(VANILLA, method="callers")
    four = replace(one, threads=4, gbps=(6.0,), median_gbps=6.0)
    assert [row.vs_vanilla for row in compare([four, one])] == [3.0, 1.0]


def test_other_shapes_and_experiments_are_no_baseline() -> None:
    other_count = replace(THREADS, folios=17)
    other_experiment = replace(THREADS, experiment="hugetlb")
    other_size = replace(THREADS, folio_kb=128)
    for row in compare([VANILLA, other_count, other_experiment, other_size])[1:]:
        assert row.vs_vanilla is None


def test_vanilla_callers_are_no_baseline() -> None:
    callers = replace(VANILLA, method="callers", threads=2, gbps=(8.0,), median_gbps=8.0)
    assert compare([callers, VANILLA, THREADS])[2].vs_vanilla == 1.5
    assert compare([callers, VANILLA, THREADS])[0].vs_vanilla == 4.0


def test_feature_off_is_the_baseline_where_no_vanilla_kernel_ran() -> None:
    off = replace(VANILLA, kernel="pagehaul")
    assert compare([off, THREADS])[1].vs_vanilla == 1.5
    # Beside a vanilla kernel it is a row like any other.
    slower = replace(off, gbps=(1.0,), median_gbps=1.0)
    assert compare([slower, VANILLA])[0].vs_vanilla == 0.5


def test_a_file_survives_dump_and_load(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    model = {"cpus": 2, "model": "plain", "clock": "virtual"}
    rows = compare([VANILLA, THREADS, *(replace(row, **model) for row in (VANILLA, THREADS))])
    verdict = (Statement("Nothing is slower.", True), Statement("2 words are wrong.", False))
    results = Results({"quick": True}, rows, Integrity(4096, 0, 0), verdict)
    dump(results, path)
    assert load(path) == results
    assert json.loads(path.read_text())["verdict"][1] == {"text": verdict[1].text, "good": False}


def test_the_schema_has_the_documented_fields() -> None:
    assert set(document()["rows"][0]) >= {
        "experiment",
        "kernel",
        "method",
        "threads",
        "folio_kb",
        "folios",
        "bytes",
        "gbps",
        "median_gbps",
        "vs_vanilla",
        "instructions_per_page",
    }
    parse(document(), "f")


def test_optional_fields_may_be_missing() -> None:
    short = document()
    for row in short["rows"]:
        for field in ("counters", "vs_vanilla_min", "vs_vanilla_max"):
            del row[field]
    assert parse(short, "f").rows[1].vs_vanilla == 1.5


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kernel", "debug", "not one of vanilla, pagehaul"),
        ("method", "magic", "not one of serial"),
        ("threads", 0, "must be positive"),
        ("threads", "2", "not a whole number"),
        ("threads", True, "not a whole number"),
        ("folios", -1, "not a whole number"),
        ("gbps", [], "at least one figure"),
        ("gbps", [2.0, 0.0], "at least one figure"),
        ("gbps", [2.0, None], "not a number"),
        ("gbps", 2.0, "must be a list"),
        ("median_gbps", 2.5, "not the median of gbps"),
        ("median_gbps", float("nan"), "not finite"),
        ("vs_vanilla", 2.0, "not median_gbps by the baseline's"),
        ("bytes", 1, "not folio_kb times folios"),
        ("experiment", "", "not a name"),
        ("counters", {"x": 1.5}, "not a whole number"),
        ("cpus", -1, "not a whole number"),
        ("clock", "wall", "not one of virtual, host, instructions"),
        ("model", "", "is not a name"),
        ("model", "plain", "virtual time, and nothing else, has a model"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, message: str) -> None:
    wrong = copy.deepcopy(document())
    wrong["rows"][1][field] = value
    with pytest.raises(PagehaulError, match=message) as caught:
        parse(wrong, "f.json")
    assert f"f.json: rows[1].{field}" in str(caught.value)


def test_vanilla_cannot_have_used_the_feature() -> None:
    wrong = document()
    wrong["rows"][0]["method"] = "batch"
    with pytest.raises(PagehaulError, match="a vanilla kernel has no batch"):
        parse(wrong, "f")


@pytest.mark.parametrize("field", ["schema", "environment", "rows", "integrity", "verdict"])
def test_a_missing_part_is_named(field: str) -> None:
    wrong = document()
    del wrong[field]
    with pytest.raises(PagehaulError, match=f"{field} is missing"):
        parse(wrong, "f")


@pytest.mark.parametrize("field", ["gbps", "vs_vanilla", "cpus", "model", "clock"])
def test_a_missing_field_of_a_row_is_named(field: str) -> None:
    wrong = document()
    del wrong["rows"][0][field]
    with pytest.raises(PagehaulError, match=f"{field} is missing"):
        parse(wrong, "f")


def test_virtual_time_has_a_model() -> None:
    wrong = document()
    wrong["rows"][1]["clock"] = "virtual"
    with pytest.raises(PagehaulError, match=r"rows\[1\]\.model: virtual time"):
        parse(wrong, "f")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"text": "", "good": True}, r"verdict\[0\]\.text: '' is not a name"),
        ({"text": "So.", "good": 1}, r"verdict\[0\]\.good: 1 is not true or false"),
        ({"text": "So."}, "good is missing"),
    ],
)
def test_a_wrong_verdict_is_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(PagehaulError, match=message):
        parse({**document(), "verdict": [entry]}, "f")


def test_another_schema_is_refused() -> None:
    with pytest.raises(PagehaulError, match=r"schema 1 is not supported.*: measure again"):
        parse({**document(), "schema": 1}, "f")
    with pytest.raises(PagehaulError, match=r"schema 3 is not supported, only 2 is$"):
        parse({**document(), "schema": 3}, "f")


def test_unreadable_files_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match="cannot read"):
        load(tmp_path / "missing.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(PagehaulError, match="is not JSON"):
        load(bad)
    bad.write_text("[]")
    with pytest.raises(PagehaulError, match="must be an object"):
        load(bad)


def test_percentiles_of_touches() -> None:
    assert touch_of([], []) is None
    assert touch_of([7], []) == Touch(1, 7, 7, 7)
    assert touch_of(list(range(1000, -1, -1)), [{}]) == Touch(1001, 500, 990, 1000)


@pytest.mark.parametrize(
    ("counts", "p50", "p99"),
    [
        ({5: 1}, 5, 5),
        ({5: 1, 9: 1}, 5, 9),
        ({2000: 1, 300: 99}, 300, 300),
        ({2000: 2, 300: 98}, 300, 2000),
        ({1: 50, 2: 49, 3: 1}, 1, 2),
        ({1: 49, 2: 51}, 2, 2),
    ],
)
def test_percentiles_of_all_touches(counts: dict[int, int], p50: int, p99: int) -> None:
    touch = touch_of([2000], [counts])
    assert touch is not None
    assert touch.all == Touches(sum(counts.values()), p50, p99)


def test_a_turn_with_a_long_wait_does_not_decide() -> None:
    touch = touch_of([900], [{3: 98, 5: 2}, {3: 10, 900: 90}, {4: 98, 6: 2}])
    assert touch is not None
    assert touch.all == Touches(300, 4, 6)


def test_touches_survive_a_file(tmp_path: Path) -> None:
    entry = document()
    # As it was before all touches were kept.
    entry["rows"][0]["touch"] = {"moves": 3, "p50_ns": 1, "p99_ns": 2, "max_ns": 3}
    every = {"count": 9, "p50_ns": 1, "p99_ns": 2}
    entry["rows"][1]["touch"] = {"moves": 3, "p50_ns": 1, "p99_ns": 2, "max_ns": 3, "all": every}
    results = parse(entry, "f")
    assert results.rows[0].seen["touch"] == Touch(3, 1, 2, 3)
    assert results.rows[1].seen["touch"] == Touch(3, 1, 2, 3, Touches(9, 1, 2))
    dump(results, tmp_path / "f.json")
    assert load(tmp_path / "f.json") == results
    entry["rows"][0]["touch"]["max_ns"] = -1
    with pytest.raises(PagehaulError, match=r"touch\.max_ns"):
        parse(entry, "f")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", 0, r"touch\.all\.count: must be positive"),
        ("p50_ns", 3, r"touch\.all\.p50_ns: 3 is above p99_ns"),
        ("p99_ns", 2.5, r"touch\.all\.p99_ns: 2.5 is not a whole number"),
    ],
)
def test_wrong_touches_are_refused(field: str, value: float, message: str) -> None:
    entry = document()
    every = {"count": 9, "p50_ns": 1, "p99_ns": 2} | {field: value}
    entry["rows"][1]["touch"] = {"moves": 3, "p50_ns": 1, "p99_ns": 2, "max_ns": 3, "all": every}
    with pytest.raises(PagehaulError, match=message):
        parse(entry, "f")


def test_remaps_are_medians_and_survive_a_file(tmp_path: Path) -> None:
    assert remap_of([]) is None
    assert remap_of([(1, 9, 8), (3, 8, 7), (2, 10, 9)]) == Remap(3, 2.0, 9.0, 8.0)
    entry = document()
    remap = {"moves": 3, "first_ns": 2.5, "last_ns": 9.0, "away_ns": 8.0}
    entry["rows"][1] |= {"remap": remap, "settings": {"batch_pages": "2048"}}
    results = parse(entry, "f")
    assert (
        results.rows[1].seen["remap"] == Remap(3, 2.5, 9.0, 8.0)
        and "remap" not in results.rows[0].seen
    )
    assert results.rows[1].settings == {"batch_pages": "2048"}
    dump(results, tmp_path / "f.json")
    assert load(tmp_path / "f.json") == results
    entry["rows"][1]["remap"] = remap | {"first_ns": 9.5}
    with pytest.raises(PagehaulError, match=r"remap\.first_ns: 9.5 is not from 0 to last_ns"):
        parse(entry, "f")
    entry["rows"][1] |= {"remap": remap, "settings": {"batch_pages": 2048}}
    with pytest.raises(PagehaulError, match=r"settings\.batch_pages: 2048 is not a name"):
        parse(entry, "f")


def test_reads_are_medians_and_survive_a_file(tmp_path: Path) -> None:
    assert reads_of([]) is None
    assert reads_of([(1, 9, 80), (3, 8, 70), (2, 10, 90)]) == Reads(3, 2.0, 9.0, 80.0)
    entry = document()
    reads = {"moves": 3, "warm_ns": 2.5, "own_ns": 9.0, "moved_ns": 80.0}
    entry["rows"][1] |= {"reads": reads}
    results = parse(entry, "f")
    assert (
        results.rows[1].seen["reads"] == Reads(3, 2.5, 9.0, 80.0)
        and "reads" not in results.rows[0].seen
    )
    dump(results, tmp_path / "f.json")
    assert load(tmp_path / "f.json") == results
    entry["rows"][1]["reads"] = reads | {"own_ns": -1}
    with pytest.raises(PagehaulError, match=r"reads: times must not be negative"):
        parse(entry, "f")


def test_a_condition_has_a_baseline_of_its_own() -> None:
    busy = replace(VANILLA, condition="busy", gbps=(1.0,), median_gbps=1.0)
    ours = replace(THREADS, condition="busy", gbps=(0.5,), median_gbps=0.5)
    rows = compare([VANILLA, busy, ours, replace(ours, condition="other")])
    assert [row.vs_vanilla for row in rows] == [1.0, 1.0, 0.5, None]


def test_hogs_are_medians_and_survive_a_file(tmp_path: Path) -> None:
    assert hog_of([]) is None
    assert hog_of([(0.5, 9.0), (0.25, 12.0), (0.75, 3.0)]) == Hog(3, 0.5, 9.0)
    assert hog_of([(1.001, -2.0)]) == Hog(1, 1.001, 0.0)
    entry = document()
    entry["rows"][1]["hog"] = {"moves": 3, "share": 0.5, "lost_ns": 9.0}
    for row in entry["rows"]:
        row["condition"] = "busy"
    results = parse(entry, "f")
    assert results.rows[1].seen["hog"] == Hog(3, 0.5, 9.0) and "hog" not in results.rows[0].seen
    dump(results, tmp_path / "f.json")
    assert load(tmp_path / "f.json") == results
    entry["rows"][1]["hog"]["lost_ns"] = -1.0
    with pytest.raises(PagehaulError, match="must not be negative"):
        parse(entry, "f")
    entry["rows"][1]["condition"] = 3
    with pytest.raises(PagehaulError, match=r"condition: 3 is not text"):
        parse(entry, "f")
