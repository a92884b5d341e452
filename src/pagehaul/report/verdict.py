# SPDX-License-Identifier: GPL-2.0-only
"""The end of a benchmark: what came out, in ten sentences at most, each of them good or not."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pagehaul.bench.measures.cpu_time import MEASURE as CPU_TIME
from pagehaul.bench.measures.hog import MEASURE as HOG
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.measures.touch import MEASURE as TOUCH
from pagehaul.bench.row import REPEATABLE, Results, Row, Statement, find_baseline
from pagehaul.bench.tables import is_apart
from pagehaul.bench.views import scaling, validation
from pagehaul.report.losses import LEAST, by_default, cell_text, ratio, slower

# Waits, and what others lose, may be so many times the unmodified kernel's before they are red.
MOST_WAIT = 1.1

# Moves of so many base pages must not pay for the decision whether others should help.
SMALL = (1, 8, 32)
BASE_KB = 4

# Slices that ended by force, of all of them, until figures are doubtful.
_MOST_FORCED = 0.001


def statements(results: Results) -> tuple[Statement, ...]:
    """Return the verdict on a run, which leaves out what was not measured."""
    # Others measure a model, or a mechanism, and not what Pagehaul gives.
    ours = [row for row in results.rows if not is_apart(row.experiment)]
    found = [
        _fastest(ours),
        _scaling(results),
        slower(compared(ours)),
        _small_moves(ours),
        _busy(ours),
        _stall(ours),
        _dma(ours),
        _validation(results),
        _virtual_time(results),
        _verified(results),
    ]
    return tuple(statement for statement in found if statement is not None)


def of(results: Results) -> tuple[Statement, ...]:
    """Return the verdict that goes with results, made of them if they have none."""
    return results.verdict or statements(results)


def compared(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of Pagehaul's kernel that are compared with the unmodified one."""
    return [
        row
        for row in rows
        if row.kernel == "pagehaul"
        and row.vs_vanilla is not None
        and (baseline := find_baseline(row, rows)) is not None
        and baseline.kernel == "vanilla"
    ]


def _timed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.clock != "instructions"]


def _span(figures: Sequence[float]) -> str:
    """Return the least and the most of ratios, once where they are the same."""
    least, most = (f"{each(figures):.2f}x" for each in (min, max))
    return least if least == most else f"{least} to {most}"


def _fastest(rows: Sequence[Row]) -> Statement | None:
    timed = _timed(compared(rows))
    if not timed:
        return None
    best = max(timed, key=ratio)
    text = f"Fastest: {ratio(best):.2f}x the unmodified kernel's speed ({cell_text(best)})."
    return Statement(text, ratio(best) >= 1)


def _scaling(results: Results) -> Statement | None:
    texts, good = [], True
    rows = results.of("scaling")
    for model in dict.fromkeys(row.model for row in rows):
        curves = scaling.curves([row for row in rows if row.model == model])
        most = max((curve.most() for curve in curves), default=0)
        # A page of 1 GB cannot be divided among callers.
        at_most = [curve for curve in curves if most and curve.most() == most]
        speeds = [(curve.label, curve.ours[most], curve.callers[most]) for curve in at_most]
        if not speeds:
            continue
        good = good and all(ours.speed >= LEAST * callers.speed for _, ours, callers in speeds)
        told = [
            f"{label} {ours.speed:.1f}x and {callers.speed:.1f}x" for label, ours, callers in speeds
        ]
        where = f"{most} CPUs" + (f", model {model}" if model else "")
        texts.append(f"{where}: {', '.join(told)}")
    if not texts:
        return None
    text = "Scaling, one caller with helpers and as many plain callers, by one plain caller: "
    return Statement(f"{text}{'; '.join(texts)}.", good)


def _small_moves(rows: Sequence[Row]) -> Statement | None:
    small = [
        row
        for row in compared(rows)
        if by_default(row) and row.folio_kb == BASE_KB and row.folios in SMALL and not row.condition
    ]
    speeds = _worst(_timed(small))
    counts = _worst(row for row in small if INSTRUCTIONS.of(row) is not None)
    parts = []
    if speeds:
        parts.append(f"speed {', '.join(f'{each:.2f}x ({n})' for n, each in speeds.items())}")
    if counts:
        told = ", ".join(f"{1 / each:.3f}x ({n})" for n, each in counts.items())
        parts.append(f"instructions {told}")
    if not parts:
        return None
    text = f"Small moves at worst, by the unmodified kernel's (base pages): {'; '.join(parts)}."
    return Statement(text, min([*speeds.values(), *counts.values()]) >= LEAST)


def _worst(rows: Iterable[Row]) -> dict[int, float]:
    """Return the lowest speed by number of pages: of instructions that is their highest number."""
    worst: dict[int, float] = {}
    for row in sorted(rows, key=lambda row: row.folios):
        worst[row.folios] = min(worst.get(row.folios, ratio(row)), ratio(row))
    return worst


def _beside(
    rows: Sequence[Row], seen: Callable[[Row], float | None]
) -> list[tuple[Row, float, float]]:
    """Return of compared rows what was seen of each, and by the unmodified kernel's."""
    found = []
    for row in filter(by_default, compared(rows)):
        baseline = find_baseline(row, rows)
        ours, base = seen(row), seen(baseline) if baseline is not None else None
        if ours is not None and base:
            found.append((row, ours, ours / base))
    return found


def _busy(rows: Sequence[Row]) -> Statement | None:
    seen = _beside(rows, lambda row: hog.lost_ns if (hog := HOG.of(row)) else None)
    if not seen:
        return None
    speeds = [ratio(row) for row, _, _ in seen]
    lost = [by_vanilla for _, _, by_vanilla in seen]
    text = f"Beside a hog on every CPU: {_span(speeds)} the unmodified kernel's speed; the hogs "
    text += f"lose {_span(lost)} what that takes from them."
    return Statement(text, min(speeds) >= LEAST and max(lost) <= MOST_WAIT)


def _wait_ns(row: Row) -> float | None:
    touch = TOUCH.of(row)
    return touch.all.p99_ns if touch and touch.all else None


def _stall(rows: Sequence[Row]) -> Statement | None:
    seen = _beside(rows, _wait_ns)
    if not seen:
        return None
    worst, ns, by_vanilla = max(seen, key=lambda each: each[2])
    text = f"A thread that reads memory while it moves waits at most {ns / 1000:,.1f} us in 99% of "
    text += f"its reads where that is worst, {by_vanilla:.2f}x the unmodified kernel's "
    return Statement(f"{text}({cell_text(worst)}).", by_vanilla <= MOST_WAIT)


def _dma(rows: Sequence[Row]) -> Statement | None:
    copied = [row for row in _timed(compared(rows)) if row.channels]
    if not copied:
        return None
    best = max(copied, key=ratio)
    text = f"DMA: up to {ratio(best):.2f}x the unmodified kernel's speed ({cell_text(best)})"
    baseline = find_baseline(best, rows)
    ours, base = CPU_TIME.of(best), CPU_TIME.of(baseline) if baseline else None
    if ours is not None and base:
        text += f", for {ours / base:.0%} of its CPU time"
    return Statement(f"{text}.", ratio(best) >= LEAST)


def _validation(results: Results) -> Statement | None:
    all_of_them = validation.comparisons(results.of("validation"))
    if not all_of_them:
        return None
    texts = []
    for model in dict.fromkeys(each.model for each in all_of_them):
        mine = [each for each in all_of_them if each.model == model]
        texts.append(f"{model} {sum(each.good for each in mine)} of {len(mine)}")
    off = max(all_of_them, key=lambda each: abs(each.deviation))
    text = f"Published ratios that the models give within {validation.TOLERANCE:.0%}: "
    text += f"{', '.join(texts)}; furthest {off.deviation:+.0%} ({off.model}, {off.series}, "
    text += f"{off.label}, {off.count})."
    far = [each for each in all_of_them if not each.good]
    open_ones = sum(each.why is None for each in far)
    if far:
        text += f" Of {len(far)} that are further {len(far) - open_ones} are explained."
    return Statement(text, not open_ones)


def _virtual_time(results: Results) -> Statement | None:
    virtual = [row for row in results.rows if row.clock == "virtual"]
    if not virtual:
        return None
    restless = [row for row in virtual if not row.repeats]
    # Another run gives the same figures: what differs is how CPUs get along from move to move.
    text = f"Virtual time: in {len(restless)} of {len(virtual)} cells, which are marked, "
    text += f"repetitions differ by more than {REPEATABLE:.0%}"
    good = True
    guests: Sequence[Mapping[str, int]] = results.environment.get("simulation", [])
    slices, forced = (sum(guest.get(name, 0) for guest in guests) for name in ("slices", "forced"))
    if slices:
        text += f"; {forced:,} of {slices:,} slices ended by force"
        good = forced <= _MOST_FORCED * slices
    return Statement(f"{text}.", good)


def _verified(results: Results) -> Statement:
    integrity = results.integrity
    text = f"Verified: {integrity.bytes_verified / 1e9:,.1f} GB, {integrity.mismatches} mismatches"
    text += f", {integrity.not_moved} folios not moved." if integrity.not_moved else "."
    return Statement(text, content_right(results))


def content_right(results: Results) -> bool:
    """Whether every page arrived, and with the right content."""
    return not results.integrity.mismatches and not results.integrity.not_moved
