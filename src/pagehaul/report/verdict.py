# SPDX-License-Identifier: GPL-2.0-only
"""The end of a benchmark: at most ten sentences, of which those about a broken promise are red.

First what one gains, then where it loses, then what was verified. A promise is about cells without
settings: none is slower than on the unmodified kernel, neither a move nor what runs beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pagehaul.bench.cell import BALANCING
from pagehaul.bench.experiments.path_length import SMALL
from pagehaul.bench.labels import cpus_label, size_label
from pagehaul.bench.machines import hardware
from pagehaul.bench.measures.cpu_time import MEASURE as CPU_TIME
from pagehaul.bench.measures.hog import MEASURE as HOG
from pagehaul.bench.measures.instructions import MEASURE as INSTRUCTIONS
from pagehaul.bench.measures.serving import MEASURE as SERVING
from pagehaul.bench.measures.serving import Phase, Serving
from pagehaul.bench.measures.touch import MEASURE as TOUCH
from pagehaul.bench.row import REPEATABLE, Results, Row, Statement, find_baseline
from pagehaul.bench.tables import is_apart
from pagehaul.bench.views import scaling, validation
from pagehaul.report.losses import LEAST, by_default, cell_words, compared, ratio, slower

MOST_SENTENCES = 10

# Waits, and what others lose, may be so many times the unmodified kernel's.
MOST_WAIT = 1.1

BASE_KB = 4

# Time slices that ended by force, of all of them, until figures are doubtful.
_MOST_FORCED = 0.001


def statements(results: Results) -> tuple[Statement, ...]:
    """Return the verdict on a run, which leaves out what was not measured."""
    # Others measure a model, or a mechanism, and not what Pagehaul gives.
    ours = [row for row in results.rows if not is_apart(row.experiment)]
    sizes, small, virtual = [*_scaling(results)], [*_small_moves(ours)], [*_virtual_time(results)]
    gains = [*sizes, *_serving(ours), *_tiers(ours), *_dma(ours)]
    told = list(gains or _fastest(ours))
    told += [*small, *_busy(ours), *_stall(ours), *_behind_callers(results)]
    told += [*slower(compared(ours)), *_validation(results)]
    told += [*_hardware(results), *virtual, _verified(results)]
    # Promises that are kept are in what slower() counts; then sizes between the extremes give way.
    spare = [*small, *sizes[1:-1], *virtual]
    # A broken promise is cut last of all.
    spare += [*reversed(gains), *reversed(told[:-1])]
    for each in spare:
        if each in told and each.good and len(told) > MOST_SENTENCES:
            told.remove(each)
    return tuple(told[-MOST_SENTENCES:])


def of(results: Results) -> tuple[Statement, ...]:
    """Return the verdict that goes with results, made of them if they have none."""
    return results.verdict or statements(results)


def _timed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.clock != "instructions"]


def _pages(folio_kb: int, condition: str = "") -> str:
    """Return folios of a size in words: 4 KB pages, 64 KB folios, 2 MB hugetlb pages."""
    if folio_kb == BASE_KB:
        return f"{size_label(folio_kb)} pages"
    return f"{size_label(folio_kb)} {'hugetlb pages' if condition == 'hugetlb' else 'folios'}"


def _on(row: Row) -> str:
    """Return the machine of a row in words: on 16 CPUs of the model epyc-zen3."""
    model = f" of the model {row.model}" if row.model else ""
    return f" on {cpus_label(row.cpus)}{model}" if row.cpus else model.replace(" of", " on", 1)


def _curves(results: Results) -> Iterator[scaling.Curves]:
    rows = results.of("scaling")
    for model in dict.fromkeys(row.model for row in rows):
        yield from scaling.curves([row for row in rows if row.model == model])


def _scaling(results: Results) -> Iterator[Statement]:
    than = " as one caller on the unmodified kernel"
    for curve in _curves(results):
        most = curve.most()
        if most < 2:
            # A page of 1 GB cannot be divided among callers.
            continue
        ours, callers = curve.ours[most], curve.callers[most]
        row = ours.row
        text = f"With {most} CPUs{f' of the model {row.model}' if row.model else ''} a "
        text += f"{row.bytes >> 20} MB move of {_pages(row.folio_kb, row.condition)} is "
        text += f"{ours.speed:.1f}x as fast{than}; {most} plain callers reach {callers.speed:.1f}x."
        than = ""
        yield Statement(text, ours.speed >= LEAST)


def _behind_callers(results: Results) -> Iterator[Statement]:
    """Tell where as many plain callers are faster; that they are not with all CPUs is promised."""
    pairs = [
        (curve.ours[cpus].speed / curve.callers[cpus].speed, curve, cpus)
        for curve in _curves(results)
        for cpus in sorted({*curve.ours} & {*curve.callers})
        if cpus > 1
    ]
    behind = [pair for pair in pairs if pair[0] < LEAST]
    if not pairs:
        return
    if not behind:
        yield Statement("As many plain callers as CPUs are nowhere faster.", True)
        return
    _, curve, cpus = min(behind, key=lambda pair: pair[0])
    row = curve.ours[cpus].row
    text = f"As many plain callers as CPUs are faster in {len(behind)} of {len(pairs)} "
    text += f"measurements, most with {_pages(row.folio_kb, row.condition)} on {cpus_label(cpus)}: "
    text += f"{curve.callers[cpus].speed:.1f}x, where one caller with helpers reaches "
    text += f"{curve.ours[cpus].speed:.1f}x."
    yield Statement(text, all(cpus < curve.most() for _, curve, cpus in behind))


def _tiers(rows: Sequence[Row]) -> Iterator[Statement]:
    """Tell of tiers what is no loss: slower() tells that."""
    verbs = {"demotion": "Demoting", "promotion": "Promoting"}
    for row in compared(rows):
        default = by_default(row) and row.method == "parallel" and ratio(row) >= LEAST
        if row.condition in verbs and default:
            text = (
                f"{verbs[row.condition]} {row.bytes >> 20} MB of {_pages(row.folio_kb)}{_on(row)}"
            )
            yield Statement(f"{text} is {ratio(row):.2f}x as fast.", True)


def _serving(rows: Sequence[Row]) -> Iterator[Statement]:
    """Tell of servers whose memory moves: all of the first scene, and what is bad of others."""
    first = True
    for row in compared(rows):
        base = find_baseline(row, rows)
        ours, theirs = SERVING.of(row), SERVING.of(base) if base else None
        if not by_default(row) or row.method != "parallel":
            continue
        if base is None or ours is None or theirs is None:
            continue
        names = ("Redis", "memcached", "PostgreSQL")
        name = next((each for each in names if each.lower()[:8] in row.experiment), "A server")
        found = [*_latency(name, ours, theirs), *_requests(name, ours.during, theirs.during)]
        # Where the kernel balances memory, what counts is the work done by then.
        if row.settings.get("by") != BALANCING:
            took = [each.bytes / each.median_gbps / 1e6 for each in (row, base)]
            text = f"{row.bytes >> 20} MB of {name}'s memory move in {took[0]:,.0f} ms instead of "
            found.insert(0, Statement(f"{text}{took[1]:,.0f} ms.", ratio(row) >= LEAST))
        yield from (each for each in found if first or not each.good)
        first = False


def _latency(name: str, ours: Serving, theirs: Serving) -> Iterator[Statement]:
    if ours.window and theirs.window:
        mine, base = ours.window.p999_ns, theirs.window.p999_ns
        # A few dozen requests of one scene decide, so that hundredths would differ each time.
        text = f"From the start of the move on {name} answers 99.9% of the requests within "
        text += f"{mine / 1e6:.1f} ms instead of {base / 1e6:.1f} ms."
        yield Statement(text, mine <= MOST_WAIT * base)


def _requests(name: str, ours: Phase | None, theirs: Phase | None) -> Iterator[Statement]:
    if ours and theirs and ours.per_second < LEAST * theirs.per_second:
        text = f"While its memory moves, {name} answers {ours.per_second:,.0f} requests a second "
        yield Statement(f"{text}instead of {theirs.per_second:,.0f}.", False)


def _fastest(rows: Sequence[Row]) -> Iterator[Statement]:
    timed = _timed(compared(rows))
    if not timed:
        return
    best = max(timed, key=ratio)
    if ratio(best) < 1:
        text = "Nothing is faster than on the unmodified kernel; the best is "
        yield Statement(f"{text}{ratio(best):.2f}x its speed, {cell_words(best)}.", True)
        return
    text = f"The largest gain is {ratio(best):.2f}x the unmodified kernel's speed, "
    yield Statement(f"{text}{cell_words(best)}.", True)


def _small_moves(rows: Sequence[Row]) -> Iterator[Statement]:
    small = [
        row
        for row in compared(rows)
        if by_default(row) and row.folio_kb == BASE_KB and row.folios in SMALL and not row.condition
    ]
    if speeds := _timed(small):
        yield _slowest_small(speeds, "takes {:.2f}x the unmodified kernel's time")
    if counts := [row for row in small if INSTRUCTIONS.of(row) is not None]:
        yield _slowest_small(counts, "takes {:.3f}x the unmodified kernel's instructions")


def _slowest_small(rows: Sequence[Row], takes: str) -> Statement:
    worst = min(rows, key=ratio)
    counts = sorted({row.folios for row in rows})
    move = "a move of one page" if worst.folios == 1 else f"a move of {worst.folios} pages"
    return Statement(
        f"Of moves of at most {counts[-1]} pages the slowest, {move} on {cpus_label(worst.cpus)}, "
        f"{takes.format(1 / ratio(worst))}.",
        ratio(worst) >= LEAST,
    )


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


def _busy(rows: Sequence[Row]) -> Iterator[Statement]:
    seen = _beside(rows, lambda row: hog.lost_ns if (hog := HOG.of(row)) else None)
    if not seen:
        return
    slowest, lost = min(ratio(row) for row, _, _ in seen), max(each for _, _, each in seen)
    text = f"With a busy process on each CPU a move runs at {slowest:.2f}x the unmodified kernel's "
    text += f"speed at least, and costs these at most {lost:.2f}x as much."
    yield Statement(text, slowest >= LEAST and lost <= MOST_WAIT)


def _wait_ns(row: Row) -> float | None:
    touch = TOUCH.of(row)
    return touch.all.p99_ns if touch and touch.all else None


def _stall(rows: Sequence[Row]) -> Iterator[Statement]:
    seen = _beside(rows, _wait_ns)
    if not seen:
        return
    _, ns, by_vanilla = max(seen, key=lambda each: each[2])
    text = f"99% of the reads of moving memory wait at most {by_vanilla:.2f}x as long as on the "
    text += f"unmodified kernel, {ns / 1000:,.1f} us where that is worst."
    yield Statement(text, by_vanilla <= MOST_WAIT)


def _dma(rows: Sequence[Row]) -> Iterator[Statement]:
    copied = [row for row in _timed(compared(rows)) if row.channels]
    if not copied:
        return
    best = max(copied, key=ratio)
    text = f"With DMA channels a move is up to {ratio(best):.2f}x as fast"
    baseline = find_baseline(best, rows)
    ours, base = CPU_TIME.of(best), CPU_TIME.of(baseline) if baseline else None
    if ours is not None and base:
        text += f", for {ours / base:.0%} of the CPU time"
    yield Statement(f"{text}.", ratio(best) >= LEAST)


def _validation(results: Results) -> Iterator[Statement]:
    all_of_them = validation.comparisons(results.of("validation"))
    if not all_of_them:
        return
    far = [each for each in all_of_them if not each.good]
    off = max(all_of_them, key=lambda each: abs(each.deviation))
    open_ones = sum(each.why is None for each in far)
    text = f"The models give {len(all_of_them) - len(far)} of {len(all_of_them)} published ratios "
    text += f"within {validation.TOLERANCE:.0%}; the furthest is off by {off.deviation:+.0%}"
    text += f", and {open_ones} of the others are unexplained." if open_ones else "."
    yield Statement(text, not open_ones)


def _hardware(results: Results) -> Iterator[Statement]:
    for text in hardware.sentences(results.environment):
        yield Statement(text, True)


def _virtual_time(results: Results) -> Iterator[Statement]:
    virtual = [row for row in results.rows if row.clock == "virtual"]
    if not virtual:
        return
    restless = sum(not row.repeats for row in virtual)
    text = "Times are those of a machine model, not of hardware; in a run, repetitions of "
    text += f"{restless} of {len(virtual)} measurements differ by more than {REPEATABLE:.0%}."
    guests: Sequence[Mapping[str, int]] = results.environment.get("simulation", [])
    slices, forced = (sum(guest.get(name, 0) for guest in guests) for name in ("slices", "forced"))
    good = forced <= _MOST_FORCED * slices
    if not good:
        text = f"Times are doubtful: {forced:,} of {slices:,} time slices ended by force."
    yield Statement(text, good)


def _verified(results: Results) -> Statement:
    integrity = results.integrity
    compared_gb = f"{integrity.bytes_verified / 1e9:,.1f} GB were compared"
    if content_right(results):
        return Statement(f"Every page arrived with its content; {compared_gb}.", True)
    text = f"{integrity.mismatches:,} words are wrong and {integrity.not_moved:,} folios did not "
    return Statement(f"{text}move; {compared_gb}.", False)


def content_right(results: Results) -> bool:
    """Whether every page arrived, and with the right content."""
    return not results.integrity.mismatches and not results.integrity.not_moved
