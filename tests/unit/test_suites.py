# SPDX-License-Identifier: GPL-2.0-only
"""The `test` verb without kernels: reading results, summing up, comparing."""

import argparse
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import seeing, seen

from pagehaul.bench.experiment import Experiment
from pagehaul.bench.measures.remap import Remap
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import Integrity, Results, Row
from pagehaul.cli import main
from pagehaul.cli import test as verb
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs, spent, vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, Listener, Task
from pagehaul.host import tools
from pagehaul.kernel import bases, build
from pagehaul.kernel.bases import Base
from pagehaul.kernel.built import Kernel
from pagehaul.suites import (
    both,
    figures,
    ours,
    programs,
    registry,
    running,
    scripts,
    sources,
    tap,
    together,
)
from pagehaul.suites.all import arm64, mm_selftests, unit
from pagehaul.suites.apart import Piece, Stage
from pagehaul.suites.outcomes import Outcome, Status, failed, passed, skipped, summary
from pagehaul.suites.running import run_suites
from pagehaul.suites.suite import Subject, Suite

KSELFTEST = """\
TAP version 13
1..4
# Starting 4 tests from 4 test cases.
#  RUN           off.base__mbind.content ...
ok 1 off.base__mbind.content
# byte 4096: 0, not d4
# 7 words are wrong
not ok 2 off.thp__mbind.content
ok 3 off.hugetlb_1g__mbind.content # SKIP no 1 GB pages
ok 4 off.xfs__mbind.content # XFAIL known
# Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0
"""

KUNIT = """\
    KTAP version 1
    # Subtest: migrate_copy_job
    # module: job_kunit
    1..3
        KTAP version 1
        # Subtest: splits
        1..2
        ok 1 one chunk
        ok 2 odd chunks
    # splits: pass:2 fail:0 skip:0 total:2
    ok 1 splits
    # failing: EXPECTATION FAILED at job_kunit.c:7
    not ok 2 failing
    ok 3 - no_helpers
# migrate_copy_job: pass:2 fail:1 skip:0 total:3
not ok 1 migrate_copy_job
"""


def statuses(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    return [(outcome.name, outcome.status.value) for outcome in outcomes]


def test_kselftest_output() -> None:
    outcomes = tap.parse(KSELFTEST)
    assert statuses(outcomes) == [
        ("off.base__mbind.content", "passed"),
        ("off.thp__mbind.content", "failed"),
        ("off.hugetlb_1g__mbind.content", "skipped"),
        ("off.xfs__mbind.content", "passed"),
    ]
    assert "7 words are wrong" in outcomes[1].why
    assert outcomes[2].why == "no 1 GB pages"


def test_kunit_output_counts_the_innermost_tests() -> None:
    assert statuses(tap.parse(KUNIT)) == [
        ("one chunk", "passed"),
        ("odd chunks", "passed"),
        ("failing", "failed"),
        ("no_helpers", "passed"),
    ]


@pytest.mark.parametrize("text", ["", "TAP version 13\n", "noise\n", "1..0\n"])
def test_no_test_at_all_is_a_failure(text: str) -> None:
    assert [outcome.status for outcome in tap.parse(text)] == [Status.FAILED]


def test_a_stream_that_is_cut_off_fails() -> None:
    cut = KSELFTEST[: KSELFTEST.index("not ok 2")]
    assert statuses(tap.parse(cut))[-1] == ("plan", "failed")


def test_a_nested_stream_that_is_cut_off_fails() -> None:
    cut = KUNIT.replace("        ok 2 odd chunks\n", "")
    assert ("plan", "failed") in statuses(tap.parse(cut))


def test_bail_out_fails() -> None:
    assert ("bail out", "failed") in statuses(tap.parse("1..1\nBail out! no memory\nok 1 x\n"))


def test_a_program_that_skips_itself() -> None:
    assert tap.parse("TAP version 13\n1..0 # SKIP needs root\n") == [skipped("all", "needs root")]


def test_a_plan_that_skips_all_hides_no_failure() -> None:
    found = tap.parse("1..1 # SKIP needs root\nnot ok 1 x\n")
    assert statuses(found) == [("x", "failed")]


def test_each_failure_has_its_own_reason() -> None:
    found = tap.parse("1..2\n# is slow\nok 1 a\n# 7 words are wrong\nnot ok 2 b\n")
    assert found[1] == failed("b", "7 words are wrong")


def test_summary_has_the_plain_form() -> None:
    outcomes = [passed("a"), passed("b"), failed("c", "x"), skipped("d", "y")]
    assert summary(outcomes) == "2 passed, 1 failed, 1 skipped"
    assert summary([]) == "0 passed, 0 failed, 0 skipped"


def fake_suites(monkeypatch: pytest.MonkeyPatch, **found: Callable[[], list[Outcome]]) -> None:
    monkeypatch.setattr(registry, "SUITES", found)


def test_run_sums_up_in_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    fake_suites(
        monkeypatch,
        one=lambda: [passed("a"), skipped("b", "no disk")],
        two=lambda: [passed("c")],
    )
    assert run_suites(registry.SUITES) == 0
    output = capsys.readouterr()
    assert output.out == "2 passed, 0 failed, 1 skipped\n"
    assert "no disk" in output.err


def test_a_failed_test_is_named_and_gives_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    fake_suites(monkeypatch, one=lambda: [failed("the pages", "are gone")])
    assert run_suites(registry.SUITES) == 1
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert "one: the pages" in output.err
    assert "are gone" in output.err


def test_a_suite_that_stops_fails_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    def broken() -> list[Outcome]:
        raise PagehaulError("no compiler")

    fake_suites(monkeypatch, one=broken, two=lambda: [passed("a")], three=lambda: [])
    assert run_suites(registry.SUITES) == 1
    output = capsys.readouterr()
    assert output.out == "1 passed, 2 failed, 0 skipped\n"
    assert "no compiler" in output.err


def test_an_unknown_suite_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main(["test", "--suite", "nonsense"])
    assert raised.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_variant_runs_what_is_for_variants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    def of_variant(subject: Subject) -> list[Outcome]:
        assert subject.base is not None and subject.base.name == bases.DEFAULT
        assert not subject.short and not subject.alone
        return [passed(f"on {subject.ours}"), failed(f"not on {subject.ours}", "why")]

    suites = {"kunit": Suite("kunit", 1, of_variant, of_variants=True)}
    monkeypatch.setattr(verb, "SUITES", suites)
    monkeypatch.setattr(verb, "OF_VARIANTS", suites)
    assert main.main(["test", "--variant", "debug"]) == 1
    output = capsys.readouterr()
    assert output.out == "1 passed, 1 failed, 0 skipped\n"
    assert "not on debug" in output.err


def test_a_variant_refuses_suites_that_are_not_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["test", "--variant", "debug", "--suite", "lint"]) == 1
    assert "--variant debug is not for lint" in capsys.readouterr().err


def test_a_variant_that_looks_for_mistakes_gets_time_and_memory(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    given: list[tuple[float, int]] = []

    def run(kernel: Kernel, guest: Guest, task: Task, **how: Any) -> None:
        given.append((task.timeout, guest.memory_mb))

    monkeypatch.setattr(vm, "run", run)
    for variant in ("pagehaul", "debug"):
        kernel = replace(KERNEL, variant=variant)
        programs.run_programs("suite", kernel, Guest(memory_mb=2048), PROGRAMS)
    (time, memory), (debug_time, debug_memory) = given
    assert debug_time > time
    assert debug_memory > memory == 2048


def test_suites_may_be_repeated() -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    assert parser.parse_args(["--suite", "lint", "--suite", "unit"]).suite == ["lint", "unit"]


JUNIT = """\
<testsuites><testsuite name="pytest">
<testcase classname="tests.unit.test_a" name="test_good" time="0.1"/>
<testcase classname="tests.unit.test_a" name="test_bad"><failure message="no">x</failure></testcase>
<testcase classname="tests.unit.test_a" name="test_error"><error message="oh">x</error></testcase>
<testcase classname="tests.unit.test_a" name="test_skip"><skipped message="why"/></testcase>
</testsuite></testsuites>
"""


@pytest.mark.parametrize(("ci", "wanted"), [("true", ["unit", "browser"]), ("", ["unit"])])
def test_only_ci_gets_a_browser(
    ci: str, wanted: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[str] = []
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(tools, "need_for", groups.append)
    monkeypatch.setattr(unit.ui, "run_logged", lambda *_, **__: None)
    assert [outcome.status for outcome in unit.SUITE()] == [Status.FAILED]
    assert groups == wanted


def test_junit() -> None:
    assert unit.read_junit(JUNIT) == [
        passed("tests.unit.test_a.test_good"),
        failed("tests.unit.test_a.test_bad", "no"),
        failed("tests.unit.test_a.test_error", "oh"),
        skipped("tests.unit.test_a.test_skip", "why"),
    ]


@pytest.mark.parametrize(
    ("reference", "ours", "status"),
    [
        (passed("a"), passed("a"), Status.PASSED),
        (passed("a"), failed("a", "x"), Status.FAILED),
        (failed("a", "x"), passed("a"), Status.FAILED),
        (passed("a"), skipped("a", "x"), Status.FAILED),
        (failed("a", "x"), failed("a", "y"), Status.SKIPPED),
        (skipped("a", "x"), skipped("a", "x"), Status.SKIPPED),
        (passed("a"), None, Status.FAILED),
        (None, passed("a"), Status.FAILED),
    ],
)
def test_compare(reference: Outcome | None, ours: Outcome | None, status: Status) -> None:
    assert both.compare("a", reference, ours).status is status


def test_a_comparison_says_why() -> None:
    fails, skips = failed("a", "x"), skipped("a", "no disk")
    assert both.compare("a", passed("a"), None).why == "reported on the reference kernel only"
    assert both.compare("a", None, passed("a")).why == "reported on ours only"
    assert both.compare("a", fails, fails).why == "fails on the reference kernel, too"
    assert both.compare("a", skips, skips).why == "no disk"


def row(kernel: str, method: str, instructions: float | None, folios: int = 8192) -> Row:
    # One repetition of two is disturbed.
    speeds = (900.0 / instructions, 1000.0 / instructions) if instructions else (1.0,)
    return Row(
        "path-length", kernel, method, 1, 4, folios, folios * 4096, speeds, 1.0, 1.0, 1.0, 1.0,
        {}, seen=seen(instructions_per_page=instructions),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("off", "batch", "bad"),
    [
        (1000.0, 1000.0, 0),
        (1005.0, 1020.0, 0),
        (1006.0, 1000.0, 1),
        (1000.0, 1021.0, 1),
        (None, 1000.0, 1),
    ],
)
def test_path_length_bounds(off: float | None, batch: float, bad: int) -> None:
    rows = [
        row("vanilla", "serial", 1000.0),
        row("pagehaul", "serial", off),
        row("pagehaul", "batch", batch),
        row("pagehaul", "threads", 9999.0),
        row("pagehaul", "parallel", 1000.0),
    ]
    outcomes = figures.check_path_length(rows)
    assert len(outcomes) == 3
    assert sum(outcome.status is Status.FAILED for outcome in outcomes) == bad


@pytest.mark.parametrize(("later", "bad"), [(1010.0, 0), (1030.0, 1)])
def test_more_boots_decide_whether_a_path_is_too_long(
    monkeypatch: pytest.MonkeyPatch, later: float, bad: int
) -> None:
    asked = []

    def measure(base: object, experiment: Experiment, boots: int | None = None) -> Results:
        asked.append((experiment.name, boots))
        ours = 1030.0 if boots == 3 else later
        rows: tuple[Row, ...] = tuple(
            row(kernel, "serial", 1000.0) for kernel in ("vanilla", "pagehaul")
        )
        rows += (row("pagehaul", "batch", ours), row("pagehaul", "parallel", 1000.0))
        return Results({}, rows, Integrity(1, 0, 0))

    monkeypatch.setattr(figures, "_measure", measure)
    monkeypatch.setattr(figures, "check_busy", lambda rows: [])
    assert sum(each.status is Status.FAILED for each in figures.path_length()) == bad
    assert asked == [("path-length", 3), ("path-length", 9), ("busy-counted", None)]


def test_path_length_is_that_of_the_usual_path() -> None:
    usual, longer = (1.0,) * 25, (0.97,) * 25
    # The shortest of many, and those that something else lengthens, are not it.
    disturbed = (1.2,) + (0.97,) * 10 + (1.0,) * 14
    rows = [
        replace(row("vanilla", "serial", 1000.0), gbps=(*longer, *usual)),
        replace(row("pagehaul", "serial", 1000.0), gbps=(*longer, *disturbed)),
        replace(row("pagehaul", "batch", 1000.0), gbps=longer + longer),
        replace(row("pagehaul", "parallel", 1000.0), gbps=usual),
    ]
    outcomes = figures.check_path_length(rows)
    assert [each.status for each in outcomes] == [Status.PASSED, Status.FAILED, Status.PASSED]


def test_path_length_is_not_that_of_a_few_moves() -> None:
    rows = [
        replace(row("vanilla", "serial", 1000.0), gbps=(1.0,) * 25),
        replace(row("pagehaul", "serial", 1000.0), gbps=(1.0,) * 5 + (0.97,) * 20),
    ]
    outcome, _ = figures.check_path_length(rows)
    assert outcome.status is Status.FAILED


def test_small_moves_have_a_bound_of_their_own() -> None:
    rows = [
        row("vanilla", "serial", 1000.0, 8),
        row("pagehaul", "serial", 1010.0, 8),
        row("pagehaul", "batch", 1020.0, 8),
        row("pagehaul", "parallel", 1021.0, 8),
    ]
    outcomes = figures.check_path_length(rows)
    assert [outcome.status for outcome in outcomes] == [Status.PASSED, Status.PASSED, Status.FAILED]
    assert outcomes[2].name.startswith("4 KB x 8, parallel")


@pytest.mark.parametrize(
    ("kernels", "folios", "speed", "cpu_ns", "status"),
    [
        (("vanilla", "pagehaul"), 20_000, 0.95, 1020.0, Status.PASSED),
        (("vanilla", "pagehaul"), 20_000, 0.94, 1000.0, Status.FAILED),
        (("vanilla", "pagehaul"), 19_999, 0.94, 1000.0, Status.PASSED),
        (("vanilla", "pagehaul"), 19_999, 1.50, 1021.0, Status.FAILED),
        (("vanilla", "pagehaul"), 20_000, 1.00, None, Status.FAILED),
        (("pagehaul",), 20_000, 1.00, 1000.0, Status.FAILED),
        (("vanilla",), 20_000, 1.00, 1000.0, Status.FAILED),
        ((), 20_000, 1.00, 1000.0, Status.FAILED),
    ],
)
def test_moves_beside_a_hog_are_not_behind(
    kernels: Sequence[str], folios: int, speed: float, cpu_ns: float | None, status: Status
) -> None:
    beside = {
        "vanilla": seeing(row("vanilla", "serial", None, folios), cpu_ns_per_page=1000.0),
        "pagehaul": seeing(
            replace(row("pagehaul", "parallel", None, folios), median_gbps=speed),
            cpu_ns_per_page=cpu_ns,
        ),
    }
    (outcome,) = figures.check_busy([beside[kernel] for kernel in kernels])
    assert outcome.status is status


@pytest.mark.parametrize(
    ("kernels", "every", "status"),
    [
        (("vanilla", "pagehaul"), Touches(7, 300, 2_010_000), Status.PASSED),
        # The longest there and back, three times.
        (("vanilla", "pagehaul"), Touches(6, 300, 900), Status.FAILED),
        (("vanilla", "pagehaul"), Touches(7, 300, 2_030_000), Status.FAILED),
        (("vanilla", "pagehaul"), None, Status.FAILED),
        (("vanilla",), Touches(7, 300, 900), Status.FAILED),
        ((), None, Status.FAILED),
    ],
)
def test_all_touches_are_kept(
    kernels: Sequence[str], every: Touches | None, status: Status
) -> None:
    touch = Touch(3, 1_000_000, 2_000_000, 2_000_000, every)
    rows = [seeing(row(kernel, "serial", None), touch=touch) for kernel in kernels]
    outcome = figures.check_touches([row("vanilla", "serial", None), *rows])
    assert outcome.status is status


@pytest.mark.parametrize(
    ("forced", "plain", "bad"),
    [
        ({"requests": 9}, {}, []),
        # Nobody was idle.
        ({"requests": 9, "alone": 9}, {"requests": 0}, []),
        ({}, {}, ["help with little can be forced"]),
        ({"requests": 9}, {"requests": 9}, ["settings are put back after a cell"]),
        ({"requests": 9}, {"requests": 1, "alone": 1}, ["settings are put back after a cell"]),
        ({"requests": 9}, None, ["help with little, forced and not"]),
    ],
)
def test_help_is_forced_where_that_is_set(
    forced: dict[str, int], plain: dict[str, int] | None, bad: list[str]
) -> None:
    rows = [
        replace(
            row("pagehaul", "parallel", None, 32),
            condition="little",
            settings=settings,
            counters={f"migrate_copy.{name}": count for name, count in counters.items()},
        )
        for settings, counters in (({"vm.mt_page_copy": "1"}, forced), ({}, plain))
        if counters is not None
    ]
    outcomes = figures.check_forced([row("vanilla", "serial", None), *rows])
    assert [each.name for each in outcomes if each.status is Status.FAILED] == bad


@pytest.mark.parametrize("missing", ["serial", "batch", "parallel"])
def test_path_length_that_was_not_measured_fails(missing: str) -> None:
    modes = {"serial", "batch", "threads", "parallel"} - {missing}
    rows = [row("vanilla", "serial", 1000.0), *(row("pagehaul", mode, 1000.0) for mode in modes)]
    failures = [each for each in figures.check_path_length(rows) if each.status is Status.FAILED]
    assert failures == [failed("path length of every mode", "not all modes were measured")]


@pytest.mark.parametrize(
    ("kernels", "first", "last", "status"),
    [
        (("vanilla", "pagehaul"), 1e7, 3e7, Status.PASSED),
        # One after the other, ...
        (("vanilla", "pagehaul"), 3e7, 3e7, Status.FAILED),
        (("vanilla", "pagehaul"), 0.0, 3e7, Status.FAILED),
        # ... and within the call, which takes 33.6 ms.
        (("vanilla", "pagehaul"), 1e7, 3.4e7, Status.FAILED),
        (("vanilla",), 1e7, 3e7, Status.FAILED),
        ((), 1e7, 3e7, Status.FAILED),
    ],
)
def test_folios_are_back_within_the_call(
    kernels: Sequence[str], first: float, last: float, status: Status
) -> None:
    rows = [
        seeing(row(kernel, "serial", None), remap=Remap(9, first, last, 1e6)) for kernel in kernels
    ]
    outcome = figures.check_remaps([row("vanilla", "serial", None), *rows])
    assert outcome.status is status


SMOKE = ("serial on vanilla", "serial on pagehaul", "batch on pagehaul", "threads on pagehaul")


@pytest.mark.parametrize(
    ("integrity", "methods", "shapes", "bad"),
    [
        (Integrity(4096, 0, 0), 4, 3, set()),
        (Integrity(4096, 1, 0), 4, 3, {"every byte is what was written"}),
        (Integrity(0, 0, 0), 4, 3, {"every byte is what was written"}),
        (Integrity(4096, 0, 1), 4, 3, {"every folio moved"}),
        (Integrity(4096, 0, 0), 3, 3, {f"{SMOKE[3]} is measured"}),
        (Integrity(4096, 0, 0), 4, 2, {f"{each} is measured" for each in SMOKE}),
    ],
)
def test_a_small_benchmark_moves_everything_and_every_byte_is_right(
    integrity: Integrity,
    methods: int,
    shapes: int,
    bad: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = tuple(
        replace(row(kernel, method, None, shape.folios), folio_kb=shape.folio_kb, bytes=shape.bytes)
        for method, _, kernel in (each.split() for each in SMOKE[:methods])
        for shape in figures._SMOKE_SHAPES[:shapes]
    )
    monkeypatch.setattr(figures, "_measure", lambda *_: Results({}, rows, integrity))
    monkeypatch.setattr(figures, "check_remaps", lambda _: passed("remaps"))
    monkeypatch.setattr(figures, "check_forced", lambda _: [])
    monkeypatch.setattr(figures, "check_touches", lambda _: passed("touches"))
    failures = {each.name for each in figures.smoke() if each.status is Status.FAILED}
    assert failures == bad


def guest_that_prints(
    monkeypatch: pytest.MonkeyPatch, output: str, error: str = ""
) -> list[Sequence[str]]:
    """Let guests print `output`, and then fail if there is an error."""
    commands: list[Sequence[str]] = []

    def run(kernel: Kernel, guest: Guest, task: Task, *, log: Path, listener: Listener) -> None:
        assert listener.on_output
        commands.append(task.command)
        listener.on_output("stdout", output.encode())
        if error:
            raise GuestError(error)

    monkeypatch.setattr(vm, "run", run)
    return commands


KERNEL = Kernel("vanilla", Path("t"), Path("i"), Path("c"), "6.12")
PROGRAMS = [programs.Program("one", "./one"), programs.Program("two", "./two")]


def run_two(outcomes: dict[str, list[Outcome]]) -> list[tuple[str, str, str]]:
    return [
        (label, outcome.name, outcome.status.value)
        for label, found in outcomes.items()
        for outcome in found
    ]


def ends(text: str, status: int) -> str:
    return f"@pagehaul begin\n{text}\n@pagehaul end {status}\n"


def test_programs_of_a_guest(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    commands = guest_that_prints(
        monkeypatch, ends("1..1\nok 1 a", 0) + ends("1..1\nnot ok 1 b\n", 1)
    )
    outcomes = programs.run_programs("suite", KERNEL, Guest(), PROGRAMS)
    assert run_two(outcomes) == [("one", "a", "passed"), ("two", "b", "failed")]
    assert "./one" in commands[0][-1]


def test_the_script_of_a_guest_reports_exit_statuses(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    commands = guest_that_prints(monkeypatch, "")
    wanted = [programs.Program("one", "printf 'ok 1 x'; exit 3"), programs.Program("two", "true")]
    programs.run_programs("suite", KERNEL, Guest(), wanted)
    script = list(commands[0])
    output = subprocess.run(script, capture_output=True, text=True, check=False).stdout
    assert re.findall(r"^@pagehaul end (\d+)$", output, re.M) == ["3", "0"]
    assert "ok 1 x\n" in output


@pytest.mark.parametrize(("status", "fails"), [(0, False), (1, True), (4, False), (139, True)])
def test_a_program_that_fails_without_a_failed_test(
    status: int, fails: bool, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    guest_that_prints(monkeypatch, ends("1..1\nok 1 a", status) + ends("1..1\nok 1 b", 0))
    outcomes = programs.run_programs("suite", KERNEL, Guest(), PROGRAMS)
    assert (("one", "exit status", "failed") in run_two(outcomes)) is fails


def test_a_guest_that_dies_fails_what_had_not_ended(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    output = ends("1..1\nok 1 a", 0) + "@pagehaul begin\n1..2\nok 1 b\n"
    guest_that_prints(monkeypatch, output, "Kernel panic")
    outcomes = programs.run_programs("suite", KERNEL, Guest(), PROGRAMS)
    assert run_two(outcomes) == [
        ("one", "a", "passed"),
        ("two", "b", "passed"),
        ("two", "plan", "failed"),
        ("two", "the program", "failed"),
    ]
    assert outcomes["two"][-1].why == "Kernel panic"
    # Nor does it say more of one that had not begun.
    guest_that_prints(monkeypatch, ends("1..1\nok 1 a", 0), "Kernel panic")
    outcomes = programs.run_programs("suite", KERNEL, Guest(), PROGRAMS)
    assert run_two(outcomes) == [("one", "a", "passed"), ("two", "the program", "failed")]


def test_a_warning_in_the_kernel_log_fails_though_all_tests_passed(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    output = ends("1..1\nok 1 a", 0) + ends("1..1\nok 1 b", 0)
    guest_that_prints(monkeypatch, output, "WARNING: lock held")
    outcomes = programs.run_programs("suite", KERNEL, Guest(), PROGRAMS)
    assert ("guest", "kernel log", "failed") in run_two(outcomes)


COMPILER = """\
  CC      mm/migrate.o
mm/migrate.c:10:5: warning: no previous prototype for 'f' [-Wmissing-prototypes]
   10 | int f(void);
  CHECK   mm/migrate_copy/job.c
mm/migrate_copy/job.c:52:23: warning: symbol 'x' was not declared. Should it be static?
./include/linux/migrate_copy.h:7:1: error: bad constant expression
mm/migrate.c:99:5: warning: context imbalance in 'g' - unexpected unlock
"""


def test_a_check_has_the_environment_of_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    command = ["sh", "-c", 'echo "$MINE $ARCH $NO_COLOR"']
    assert sources._output(command, env={"ARCH": "arm64"}) == (0, "1 arm64 1\n")
    assert sources._output(command, env={"NO_COLOR": "2"}) == (0, "1  2\n")


def test_compiler_warnings_are_compared_without_their_lines() -> None:
    warnings = sources.find_warnings(COMPILER)
    assert len(warnings) == 4
    moved = COMPILER.replace("migrate.c:10:", "migrate.c:20:").replace("migrate.c:99:", "m.c:1:")
    assert len(sources.find_warnings(moved) - warnings) == 1
    ours, new = sources.judge_warnings(
        sources.find_warnings("mm/migrate.c:9:9: warning: old"), warnings
    )
    assert ours.status is Status.FAILED
    assert "job.c" in ours.why and "migrate_copy.h" in ours.why
    assert new.status is Status.FAILED
    assert "no previous prototype" in new.why and "job.c" not in new.why


def test_old_warnings_of_the_kernel_pass() -> None:
    old = sources.find_warnings("mm/migrate.c:9:9: warning: old")
    assert [each.status for each in sources.judge_warnings(old, old)] == [Status.PASSED] * 2


def test_sparse_knows_nothing_of_guards() -> None:
    said = "mm/migrate_copy/{}:9:9: warning: context imbalance in '{}' - wrong count at exit"
    guarded = sources.find_warnings(said.format("mtcopy.c", "mtcopy_claim"))
    plain = sources.find_warnings(said.format("mtcopy.c", "mtcopy_run"))
    assert [each.status for each in sources.judge_warnings(set(), guarded)] == [Status.PASSED] * 2
    ours, new = sources.judge_warnings(set(), guarded | plain)
    assert ours.status is Status.FAILED and new.status is Status.PASSED
    assert "mtcopy_run" in ours.why and "mtcopy_claim" not in ours.why


def test_every_kernel_file_and_patch_is_checked() -> None:
    names = [str(path) for path in sources.kernel_sources()]
    assert any(name.endswith("mm/migrate_copy/batch.c") for name in names)
    assert any(name.endswith("migrate_copy/migrate_content.c") for name in names)
    assert any(name.endswith("mm/migrate.h") for name in names)


@pytest.mark.parametrize("name", bases.names())
def test_every_patched_object_is_compiled(name: str) -> None:
    found = sources.patched_objects(bases.get(name))
    assert "mm/migrate.o" in found and "mm/mempolicy.o" in found
    assert all(each.endswith(".o") for each in found)
    # Ours are compiled anyway.
    assert not any("migrate_copy" in each for each in found)


def pieces_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[Piece]:
    """Return what a command line would run apart."""
    found: list[Piece] = []

    def run_pieces(pieces: Sequence[Piece], minutes: float | None) -> int:
        found.extend(pieces)
        return 0

    monkeypatch.setattr(verb, "run_pieces", run_pieces)
    assert main.main(["test", *words]) == 0
    return found


def test_everything_runs_in_its_short_form_and_some_of_it_on_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = pieces_of(monkeypatch)
    default, *others = bases.names()
    suites = [piece.name for piece in pieces if piece.suite]
    assert suites == [
        *(name for name in registry.SUITES if name not in registry.ON_REQUEST),
        *(
            f"{other}/{suite.name}"
            for other in others
            for suite in registry.SUITES.values()
            if suite.elsewhere
        ),
    ]
    assert others and all("--short" in piece.words for piece in pieces if piece.suite)
    assert [piece.name for piece in pieces if not piece.suite] == [
        f"kernel pagehaul {default}",
        f"kernel vanilla {default}",
        *(f"kernel pagehaul {other}" for other in others),
    ]


def test_all_is_every_suite_in_full_on_every_base(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = pieces_of(monkeypatch, "--all")
    assert not any("--short" in piece.words for piece in pieces)
    names = [piece.name for piece in pieces]
    for base in bases.names():
        prefix = "" if base == bases.DEFAULT else f"{base}/"
        wanted = [suite for suite in registry.SUITES.values() if not suite.on_request]
        assert {f"{prefix}{suite.name}" for suite in wanted if suite.boots} <= set(names)
        assert {f"kernel {variant} {base}" for variant in ("vanilla", "pagehaul")} <= set(names)
        assert ("lint" if base == bases.DEFAULT else f"{base}/compile") in names
    assert names.count("unit") == 1


def test_suites_that_are_named_run_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    named = ("--suite", "kunit", "--suite", "lint")
    build, kunit, lint = pieces_of(monkeypatch, *named, "--base", "6.12")
    assert build.words == ("build", "--variant", "pagehaul", "--base", "6.12")
    assert kunit.name == "6.12/kunit" and "--short" not in kunit.words
    assert [each.stage for each in (build, kunit, lint)] == [
        Stage.BUILD,
        Stage.GUESTS,
        Stage.BESIDE,
    ]
    assert all("--short" in each.words for each in pieces_of(monkeypatch, *named, "--short")[1:])
    (_, pinned, _) = pieces_of(monkeypatch, "--suite", "kunit", "--suite", "pinned")[-3:]
    assert pinned.name == "kunit"
    assert pieces_of(monkeypatch, "--suite", "kunit", "--suite", "pinned")[-1].stage is Stage.ALONE


def test_one_suite_runs_here_and_is_recorded(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    seen: list[Subject] = []

    def work(subject: Subject) -> list[Outcome]:
        seen.append(subject)
        spent.add(guests=2, boot_s=1.5)
        return [failed("a", "b"), skipped("c", "d"), passed("e")]

    monkeypatch.setattr(verb, "SUITES", {"kunit": Suite("kunit", 1, work)})
    record = tmp_path / "record.json"
    words = ["test", "--suite", "kunit", "--base", "6.12", "--record", str(record)]
    before = spent.so_far().get("boot_s", 0.0)
    assert main.main(words) == 1
    outcomes, amounts = running.read_record(record, "kunit")
    assert outcomes == work(seen[0])
    assert amounts["boot_s"] == before + 1.5
    assert main.main([*words, "--short"]) == 1
    assert [(subject.short, subject.alone) for subject in seen[::2]] == [
        (False, False),
        (True, True),
    ]
    with pytest.raises(KeyError):
        running.read_record(record, "errors")


def test_a_record_is_of_one_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["test", "--record", "x"]) == 1
    assert "--record is for one suite" in capsys.readouterr().err


def results_of(*statuses: str) -> dict[str, Outcome]:
    """Outcomes of the tests a, b, c, …"""
    return {
        name: Outcome(name, Status(status)) for name, status in zip("abc", statuses, strict=False)
    }


def test_what_differs_once_is_decided_by_three_runs() -> None:
    """A test that depends on time fails on any kernel now and then."""
    good = results_of("passed", "passed")
    runs = [[results_of("passed", "failed"), good], [good, good], [good, good]]
    outcomes = both.compare_runs(lambda: runs.pop(0))
    assert [each.status for each in outcomes] == [Status.PASSED] * 2
    assert not runs


def test_what_differs_always_fails() -> None:
    run = [results_of("passed", "passed"), results_of("passed", "failed")]
    outcomes = both.compare_runs(lambda: run)
    assert [each.status for each in outcomes] == [Status.PASSED, Status.FAILED]


def test_what_is_reported_once_is_decided_by_three_runs() -> None:
    """A program that gives up reports a test that it has in no other run."""
    good, more = results_of("passed"), results_of("passed", "failed")
    runs = [[more, good], [good, good], [good, good]]
    outcomes = both.compare_runs(lambda: runs.pop(0))
    assert [each.status for each in outcomes] == [Status.PASSED]
    run = [more, good]
    outcomes = both.compare_runs(lambda: run)
    assert [each.status for each in outcomes] == [Status.PASSED, Status.FAILED]


def test_what_agrees_is_run_once() -> None:
    same = results_of("passed", "failed", "skipped")
    runs = [[same, same]]
    outcomes = both.compare_runs(lambda: runs.pop(0))
    assert [each.status for each in outcomes] == [Status.PASSED, Status.SKIPPED, Status.SKIPPED]


@pytest.mark.parametrize("first", [True, False])
def test_what_ends_one_stops_the_others(first: bool) -> None:
    stopped: list[bool] = []

    def wait(stop: threading.Event) -> None:
        stopped.append(stop.wait(5))

    def end(stop: threading.Event) -> None:
        raise PagehaulError("no memory")

    with pytest.raises(PagehaulError, match="no memory"):
        together.at_once([end, wait] if first else [wait, end], 2)
    assert stopped == [True]


def test_works_at_once_give_their_results_in_order() -> None:
    first_may_end = threading.Event()

    def first(stop: threading.Event) -> int:
        assert first_may_end.wait(20), "the second never ran"
        return 1

    def second(stop: threading.Event) -> int:
        first_may_end.set()
        return 2

    assert together.at_once([first, second], 2) == [1, 2]


@pytest.mark.parametrize(
    ("ours", "reference"),
    [("pagehaul", "vanilla"), ("debug", "vanilla"), ("debug-pcp-compound", "debug")],
)
def test_the_kernels_own_tests_run_on_both_kernels(
    monkeypatch: pytest.MonkeyPatch, cache: Path, ours: str, reference: str
) -> None:
    booted: list[tuple[str, str]] = []

    def run(kernel: Kernel, guest: Guest, task: Task, **how: Any) -> None:
        booted.append((kernel.variant, task.command[-1]))
        programs = task.command[-1].count("@pagehaul begin")
        how["listener"].on_output("stdout", (ends("1..1\nok 1 a\n", 0) * programs).encode())

    monkeypatch.setattr(vm, "run", run)
    monkeypatch.setattr(tools, "require", lambda *packages: None)
    monkeypatch.setattr(build, "build", lambda variant, base: replace(KERNEL, variant=variant))
    monkeypatch.setattr(cprogs, "selftests", lambda *words: cache)
    outcomes = mm_selftests.SUITE(ours)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    for variant in (reference, ours):
        scripts = "".join(script for name, script in booted if name == variant)
        assert "./migration" in scripts
        # Without a file system that has large folios, most of its tests would be skipped.
        assert re.search(r"mount -o loop \S+ (\S+) &.*& ./split_huge_page_test \1", scripts)
        # khugepaged, looking every ten seconds, would join what the program has just split.
        assert re.search(
            r"> \S*/khugepaged/scan_sleep_millisecs && ./split_huge_page_test", scripts
        )


def test_the_short_form_of_the_kernels_own_tests_has_two_for_base_and_huge_pages(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    ran: list[str] = []

    def run_programs(_: str, kernel: Kernel, guest: Guest, found: Any, *__: Any, **___: Any) -> Any:
        ran.extend(program.command for program in found)
        return {program.label: [passed("a")] for program in found}

    monkeypatch.setattr(mm_selftests, "run_programs", run_programs)
    monkeypatch.setattr(tools, "require", lambda *packages: None)
    monkeypatch.setattr(build, "build", lambda variant, base: replace(KERNEL, variant=variant))
    monkeypatch.setattr(cprogs, "selftests", lambda *words: cache)
    mm_selftests.SUITE(short=True)
    few = "-t private_anon -t shared_anon_thp"
    assert sum(command.endswith(f"./migration {few}") for command in ran) == 2
    ran.clear()
    mm_selftests.SUITE()
    assert sum(command.endswith("./migration") for command in ran) == 2


def test_names_that_a_program_repeats_stay_apart() -> None:
    text = "1..4\nok 1 same\nnot ok 2 same\nok 3 # SKIP no file\nok 4 # SKIP no file\nok 4 same\n"
    names = [name for name, _ in both.named("p", tap.parse(text))]
    assert names == ["p: same", "p: same (2)", "p: test 3", "p: test 4", "p: same (3)"]


def test_arm64_is_tested_with_both_sizes_of_pages(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    booted: list[tuple[str, str]] = []

    def run(kernel: Kernel, guest: Guest, task: Task, **how: Any) -> None:
        booted.append((kernel.arch.name, task.command[-1]))
        programs = task.command[-1].count("@pagehaul begin")
        how["listener"].on_output("stdout", (ends("1..1\nok 1 a\n", 0) * programs).encode())

    monkeypatch.setattr(vm, "run", run)
    monkeypatch.setattr(
        build, "build", lambda variant, base, arch: replace(KERNEL, variant=variant, arch=arch)
    )
    monkeypatch.setattr(build, "read_options", lambda config: {"KUNIT_DEBUGFS": "y"})
    outcomes = arm64.SUITE()
    for name in ("arm64", "arm64-64k"):
        scripts = "".join(script for booted_name, script in booted if booted_name == name)
        for what in ("kunit", "migrate_errors", "migrate_status", "migrate_content", "dcbm.ko"):
            assert what in scripts
        names = [outcome.name for outcome in outcomes if f"pagehaul-{name}: " in outcome.name]
        assert len(names) == len(set(names)) == 6
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}


def test_on_the_other_bases_our_kernel_is_tested_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built: list[str] = []

    def build_one(variant: str, base: Base | None = None) -> Kernel:
        built.append(variant)
        image = tmp_path / "bzImage"
        return Kernel(variant, tmp_path, image, image, "7", base=base)

    def nothing(works: Sequence[object], *_: object) -> list[Outcome]:
        return [passed("a work")] * len(works)

    monkeypatch.setattr(build, "build", build_one)
    monkeypatch.setattr(cprogs, "selftests", lambda *_: tmp_path)
    monkeypatch.setattr(cprogs, "build_static", lambda *_: tmp_path)
    monkeypatch.setattr(tools, "need_for", lambda *_: None)
    monkeypatch.setattr(ours, "all_at_once", nothing)
    monkeypatch.setattr(scripts, "all_at_once", nothing)
    other = bases.get(bases.names()[1])
    monkeypatch.setattr(tools, "require", lambda *_: None)
    for name in ("content", "pinned"):
        in_full = len(registry.SUITES[name]())
        assert 0 < len(registry.SUITES[name](short=True)) < in_full
        built.clear()
    for name in ("errors", "status", "move"):
        beside = len(registry.SUITES[name](base=other, short=False))
        assert set(built) == {"pagehaul", "vanilla"}, name
        built.clear()
        assert 0 < len(registry.SUITES[name](base=other, short=True)) < beside
        assert set(built) == {"pagehaul"}, name
        built.clear()
