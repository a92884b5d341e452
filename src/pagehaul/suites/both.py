# SPDX-License-Identifier: GPL-2.0-only
"""The same tests on two kernels: each has to give on ours what it gives on the other."""

from collections import Counter
from collections.abc import Callable, Sequence

from pagehaul.suites.outcomes import Outcome, Status, failed, passed, skipped

# How often they are run again where the kernels differ: with the first run, an odd number.
_MORE_RUNS = 2


def compare_runs(run: Callable[[], Sequence[dict[str, Outcome]]]) -> list[Outcome]:
    """Compare what each test gives on both kernels; `run` runs all tests on each.

    Some of these tests race with themselves, and fail on any kernel where a CPU is away for long:
    `migration` gives up after 100 moves in a row that found their page in use. When any test
    differs, all are run twice more on both kernels, and what a test gave most often counts.
    """
    runs = [run()]
    outcomes = _compare_all(*runs[0])
    if not any(outcome.status is Status.FAILED for outcome in outcomes):
        return outcomes
    runs += [run() for _ in range(_MORE_RUNS)]
    return _compare_all(*(_most_often(found) for found in zip(*runs, strict=True)))


def _compare_all(reference: dict[str, Outcome], ours: dict[str, Outcome]) -> list[Outcome]:
    names = dict.fromkeys([*reference, *ours])
    return [compare(name, reference.get(name), ours.get(name)) for name in names]


def _most_often(runs: Sequence[dict[str, Outcome]]) -> dict[str, Outcome]:
    """Return of each test the outcome whose status most runs gave.

    A test that most runs do not report is left out: a program that gave up in one run reported
    there that it did.
    """
    result = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        given = [run.get(name) for run in runs]
        ((status, _),) = Counter(_status(outcome) for outcome in given).most_common(1)
        found = next(outcome for outcome in given if _status(outcome) is status)
        if found is not None:
            result[name] = found
    return result


def _status(outcome: Outcome | None) -> Status | None:
    return None if outcome is None else outcome.status


def named(label: str, outcomes: Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    """Give each test of a program a name of its own: some programs use one several times."""
    seen: Counter[str] = Counter()
    result = []
    for outcome in outcomes:
        seen[outcome.name] += 1
        number = seen[outcome.name]
        again = f" ({number})" if number > 1 else ""
        result.append((f"{label}: {outcome.name}{again}", outcome))
    return result


def compare(name: str, reference: Outcome | None, ours: Outcome | None) -> Outcome:
    """Return whether a test gives on our kernel what it gives on the reference."""
    if reference is None or ours is None:
        where = "the reference kernel" if ours is None else "ours"
        return failed(name, f"reported on {where} only")
    if reference.status is not ours.status:
        return failed(
            name,
            f"{reference.status.value} on the reference kernel, {ours.status.value} on ours: "
            f"{ours.why}",
        )
    if ours.status is Status.PASSED:
        return passed(name)
    why = "fails on the reference kernel, too" if ours.status is Status.FAILED else ours.why
    return skipped(name, why)
