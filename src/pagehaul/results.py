# SPDX-License-Identifier: GPL-2.0-only
"""What a benchmark measured, as data: the JSON file and its validation.

docs/method.md describes every field.
"""

import json
import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from pagehaul.errors import PagehaulError

SCHEMA = 2
KERNELS = ("vanilla", "pagehaul", "pcp-compound", "judge")
METHODS = ("serial", "callers", "batch", "threads", "parallel", "dma", "hybrid", "faults")

# What the clock of the measurement counts: virtual time of a machine model, the host's time, or
# instructions, one a nanosecond.
CLOCKS = ("virtual", "host", "instructions")

# Counts of instructions that are further than this from their median are told of.
DETERMINISM = 0.005

# In virtual time, repetitions that are further apart than this part of their median are marked.
REPEATABLE = 0.02

# How far a stored figure may be from the one computed of the stored measurements: rounding only.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Touches:
    """All touches of the memory, and what half of them took at most, and 99%, in ns.

    These two are of all touches of a turn, and medians over the turns. A touch that had to wait
    counts for those that would have come meanwhile, too.
    """

    count: int
    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class Touch:
    """Longest touch of the memory in each of `moves` repetitions, in ns: of half, 99%, and all.

    all is None where only the longest ones were kept.
    """

    moves: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    all: Touches | None = None


def touch_of(times_ns: Sequence[int], turns: Sequence[Mapping[int, int]]) -> Touch | None:
    """Return what was seen of touches, None if there are none.

    times_ns are the longest of all repetitions, turns the numbers of all touches by their time, in
    each turn.
    """
    ordered = sorted(times_ns)
    if not ordered:
        return None
    last = len(ordered) - 1
    p50, p99, most = (ordered[last * part // 100] for part in (50, 99, 100))
    return Touch(len(ordered), p50, p99, most, _touches_of(turns))


def _touches_of(turns: Sequence[Mapping[int, int]]) -> Touches | None:
    shares = [tuple(_share(counts, percent) for percent in (50, 99)) for counts in turns if counts]
    if not shares:
        return None
    total = sum(sum(counts.values()) for counts in turns)
    p50, p99 = (statistics.median_high(column) for column in zip(*shares, strict=True))
    return Touches(total, p50, p99)


def _share(counts: Mapping[int, int], percent: int) -> int:
    """Return the time that so much of what is counted has at most."""
    sums = list(accumulate(count for _, count in sorted(counts.items())))
    return sorted(counts)[bisect_left(sums, sums[-1] * percent / 100)]


@dataclass(frozen=True)
class Remap:
    """How long folios are out of the page tables: medians over `moves` repetitions, in ns.

    first_ns and last_ns are from the start of the call until the first, and the last, of its folios
    is accessible again; away_ns is the longest time for which a folio is not.
    """

    moves: int
    first_ns: float
    last_ns: float
    away_ns: float


def remap_of(moves_ns: Sequence[tuple[float, float, float]]) -> Remap | None:
    """Return the medians of first, last and away of all repetitions, None if there are none."""
    return Remap(len(moves_ns), *_medians(moves_ns)) if moves_ns else None


def _medians(moves: Sequence[tuple[float, ...]]) -> Iterator[float]:
    return (float(statistics.median(figures)) for figures in zip(*moves, strict=True))


@dataclass(frozen=True)
class Reads:
    """What a move leaves of the caches: medians over `moves` repetitions, in ns.

    warm_ns is a pass over other memory that is in the caches, as far as it fits, own_ns the same
    after a move, and moved_ns the first pass over what has moved.
    """

    moves: int
    warm_ns: float
    own_ns: float
    moved_ns: float


def reads_of(moves_ns: Sequence[tuple[float, float, float]]) -> Reads | None:
    """Return the medians of warm, own and moved of all repetitions, None if there are none."""
    return Reads(len(moves_ns), *_medians(moves_ns)) if moves_ns else None


@dataclass(frozen=True)
class Hog:
    """What hogs on all CPUs got: medians over `moves` repetitions.

    share is the CPU time they used during the moves by that of all CPUs; lost_ns, in nanoseconds,
    is what they did not get of it during one of them.
    """

    moves: int
    share: float
    lost_ns: float


def hog_of(moves: Sequence[tuple[float, float]]) -> Hog | None:
    """Return the medians of share and loss of all repetitions, None if there are none."""
    if not moves:
        return None
    share, lost = _medians(moves)
    # Reading the hogs' clocks takes a moment, which is not part of the move.
    return Hog(len(moves), share, max(0.0, lost))


@dataclass(frozen=True)
class Faults:
    """What faultbench has seen, in ns, one figure for each repetition.

    cpu_ns is the CPU time of its threads, or of the compilers, and user_ns what of the latter was
    outside of the kernel. latency_ns is the mean of the faults, 0 where it was not measured.
    """

    ns: tuple[float, ...]
    cpu_ns: tuple[float, ...]
    user_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """One cell of an experiment on one kernel.

    gbps are 10^9 bytes a second, one figure for each repetition, which is a timed move, or two of
    them, there and back. vs_vanilla is median_gbps by that of the baseline row of the same
    experiment, condition and shape: vanilla's serial one or, where no vanilla kernel ran,
    Pagehaul's with the feature off. It is None where there is no baseline, as are vs_vanilla_min
    and vs_vanilla_max, the slowest and the fastest repetition by the baseline's median.
    instructions_per_page is for one base page of 4 KiB, and None where instructions were not
    counted. counters are changes of kernel counters during all timed moves. touch is what a thread
    saw that used the memory meanwhile, None where there was none. remap is None where the kernel
    was not traced, reads where nobody read before and after. settings are knobs in
    /sys/kernel/mm/migrate_copy besides those of the method. condition is what else the baseline
    must have in common with the row, "" for nothing. hog is None where there were no hogs. channels
    are the DMA channels of the method, 0 for none. cpu_ns_per_page is the CPU time of the callers,
    and of whoever helped them, for a base page moved, in nanoseconds, None where it is not known.
    pages_moved is the median number of base pages that a move moved, None where it is always all of
    them. faults is None but for the method "faults", which faults in, or compiles, and moves
    nothing: a "move" is a repetition there. cpus are those of the machine it ran on, 0 if that is
    not known. model names the machine model of virtual time, None for any other clock.
    """

    experiment: str
    kernel: str
    method: str
    threads: int
    folio_kb: int
    folios: int
    bytes: int
    gbps: tuple[float, ...]
    median_gbps: float
    vs_vanilla: float | None
    vs_vanilla_min: float | None
    vs_vanilla_max: float | None
    instructions_per_page: float | None
    counters: Mapping[str, int]
    touch: Touch | None = None
    remap: Remap | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""
    hog: Hog | None = None
    pages_moved: float | None = None
    channels: int = 0
    cpu_ns_per_page: float | None = None
    faults: Faults | None = None
    reads: Reads | None = None
    cpus: int = 0
    model: str | None = None
    clock: str = "host"

    @property
    def machine(self) -> tuple[str, str | None, int]:
        """What ran it: only rows of one machine are compared with each other."""
        return self.clock, self.model, self.cpus

    @property
    def repeats(self) -> bool:
        """Whether all repetitions came to the same figure, as they should in virtual time."""
        apart = max(self.gbps) - min(self.gbps)
        return self.clock != "virtual" or apart <= REPEATABLE * self.median_gbps

    @property
    def shape(self) -> tuple[int, int]:
        """What was moved: the size of a folio in KiB, and how many of them."""
        return self.folio_kb, self.folios

    @property
    def case(self) -> tuple[str, int, int]:
        """What methods are compared for: the condition, and what was moved."""
        return self.condition, self.folio_kb, self.folios

    def within(self, fraction: float) -> int:
        """Return how many moves are no further from the median than this fraction of it."""
        return sum(abs(g - self.median_gbps) <= fraction * self.median_gbps for g in self.gbps)


@dataclass(frozen=True)
class Integrity:
    """bytes_verified were compared with what had been written; mismatches are 64-bit words."""

    bytes_verified: int
    mismatches: int
    not_moved: int


@dataclass(frozen=True)
class Statement:
    """One sentence of the verdict; one that is not good is printed in red."""

    text: str
    good: bool


@dataclass(frozen=True)
class Results:
    """A whole run of the benchmark."""

    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    integrity: Integrity
    verdict: tuple[Statement, ...] = ()

    def experiments(self) -> list[str]:
        """Names of the experiments that have rows, in their order."""
        return list(dict.fromkeys(row.experiment for row in self.rows))

    def of(self, experiment: str) -> list[Row]:
        """Rows of one experiment."""
        return [row for row in self.rows if row.experiment == experiment]


def is_baseline(row: Row, rows: Sequence[Row]) -> bool:
    """Whether the other rows of `row`'s experiment, case and machine are compared with it."""
    if row.method != "serial" and (row.method, row.threads) != ("callers", 1):
        return False
    return row.kernel == "vanilla" or all(other.kernel != "vanilla" for other in rows)


def find_baseline(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row that `row` is compared with, or None: one caller, on the same machine."""
    for other in rows:
        # In this order: most of the rows of a whole run are of other experiments and shapes.
        same = other.experiment == row.experiment and other.folios == row.folios
        alike = same and (other.case, other.machine) == (row.case, row.machine)
        if alike and is_baseline(other, rows):
            return other
    return None


def compare(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with their ratios to the baseline filled in."""
    compared = []
    for row in rows:
        baseline = find_baseline(row, rows)
        if baseline is not None:
            row = replace(
                row,
                vs_vanilla=row.median_gbps / baseline.median_gbps,
                vs_vanilla_min=min(row.gbps) / baseline.median_gbps,
                vs_vanilla_max=max(row.gbps) / baseline.median_gbps,
            )
        compared.append(row)
    return tuple(compared)


def dump(results: Results, path: Path) -> None:
    """Write `results` as JSON; only what load() accepts is ever written."""
    document = {
        "schema": SCHEMA,
        "environment": dict(results.environment),
        "rows": [asdict(row) for row in results.rows],
        "integrity": asdict(results.integrity),
        "verdict": [asdict(statement) for statement in results.verdict],
    }
    text = json.dumps(document, indent=1) + "\n"
    parse(json.loads(text), str(path))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PagehaulError(f"cannot write {path}: {error.strerror}") from error


def load(path: Path) -> Results:
    """Read a JSON file of the benchmark; PagehaulError says what is wrong with one that is not."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PagehaulError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise PagehaulError(f"{path} is not JSON: {error}") from error
    return parse(document, str(path))


def parse(document: object, name: str) -> Results:
    """Validate a decoded JSON document; `name` is what errors call it."""
    top = _Fields(document, name)
    schema = top.integer("schema")
    if schema != SCHEMA:
        older = schema < SCHEMA
        hint = ": measure again with this version" if older else ""
        raise PagehaulError(f"{name}: schema {schema} is not supported, only {SCHEMA} is{hint}")
    environment = top.mapping("environment")
    rows = tuple(
        _parse_row(entry, f"{name}: rows[{index}]") for index, entry in enumerate(top.list("rows"))
    )
    integrity = _Fields(top.get("integrity"), f"{name}: integrity")
    results = Results(
        environment=environment,
        rows=rows,
        integrity=Integrity(
            bytes_verified=integrity.integer("bytes_verified"),
            mismatches=integrity.integer("mismatches"),
            not_moved=integrity.integer("not_moved", optional=True),
        ),
        verdict=tuple(
            _parse_statement(entry, f"{name}: verdict[{index}]")
            for index, entry in enumerate(top.list("verdict"))
        ),
    )
    for index, row in enumerate(rows):
        _check_ratio(row, rows, f"{name}: rows[{index}]")
    return results


def _parse_statement(entry: object, name: str) -> Statement:
    fields = _Fields(entry, name)
    return Statement(fields.string("text"), fields.boolean("good"))


def _parse_row(entry: object, name: str) -> Row:
    fields = _Fields(entry, name)
    gbps = tuple(fields.number_of(value, "gbps") for value in fields.list("gbps"))
    row = Row(
        experiment=fields.string("experiment"),
        kernel=fields.choice("kernel", KERNELS),
        method=fields.choice("method", METHODS),
        threads=fields.integer("threads"),
        folio_kb=fields.integer("folio_kb"),
        folios=fields.integer("folios"),
        bytes=fields.integer("bytes"),
        gbps=gbps,
        median_gbps=fields.number("median_gbps"),
        vs_vanilla=fields.maybe_number("vs_vanilla"),
        vs_vanilla_min=fields.maybe_number("vs_vanilla_min", optional=True),
        vs_vanilla_max=fields.maybe_number("vs_vanilla_max", optional=True),
        instructions_per_page=fields.maybe_number("instructions_per_page"),
        counters={
            key: fields.integer_of(value, f"counters.{key}")
            for key, value in fields.mapping("counters", optional=True).items()
        },
        touch=_parse_touch(fields.mapping("touch", optional=True), f"{name}.touch"),
        remap=_parse_remap(fields.mapping("remap", optional=True), f"{name}.remap"),
        settings={
            key: fields.string_of(value, f"settings.{key}")
            for key, value in fields.mapping("settings", optional=True).items()
        },
        condition=fields.text("condition"),
        hog=_parse_hog(fields.mapping("hog", optional=True), f"{name}.hog"),
        pages_moved=fields.maybe_number("pages_moved", optional=True),
        channels=fields.integer("channels", optional=True),
        cpu_ns_per_page=fields.maybe_number("cpu_ns_per_page", optional=True),
        faults=_parse_faults(fields.mapping("faults", optional=True), f"{name}.faults"),
        reads=_parse_reads(fields.mapping("reads", optional=True), f"{name}.reads"),
        cpus=fields.integer("cpus"),
        model=fields.maybe_string("model"),
        clock=fields.choice("clock", CLOCKS),
    )
    if not gbps or min(gbps) <= 0:
        raise PagehaulError(f"{name}.gbps: needs at least one figure, all of them positive")
    for key in ("threads", "folio_kb", "folios"):
        if getattr(row, key) < 1:
            raise PagehaulError(f"{name}.{key}: must be positive")
    if row.bytes != row.folio_kb * 1024 * row.folios:
        raise PagehaulError(f"{name}.bytes: {row.bytes} is not folio_kb times folios")
    if not math.isclose(row.median_gbps, statistics.median(gbps), rel_tol=_TOLERANCE):
        raise PagehaulError(f"{name}.median_gbps: {row.median_gbps} is not the median of gbps")
    if (row.model is not None) != (row.clock == "virtual"):
        raise PagehaulError(f"{name}.model: virtual time, and nothing else, has a model")
    if row.kernel == "vanilla" and row.method not in ("serial", "callers"):
        raise PagehaulError(f"{name}.method: a vanilla kernel has no {row.method}")
    return row


def _parse_touch(entry: Mapping[str, Any], name: str) -> Touch | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    return Touch(
        fields.integer("moves"),
        fields.integer("p50_ns"),
        fields.integer("p99_ns"),
        fields.integer("max_ns"),
        _parse_touches(fields.mapping("all", optional=True), f"{name}.all"),
    )


def _parse_touches(entry: Mapping[str, Any], name: str) -> Touches | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    touches = Touches(*(fields.integer(key) for key in ("count", "p50_ns", "p99_ns")))
    if not touches.count:
        raise PagehaulError(f"{name}.count: must be positive")
    if touches.p50_ns > touches.p99_ns:
        raise PagehaulError(f"{name}.p50_ns: {touches.p50_ns} is above p99_ns")
    return touches


def _parse_remap(entry: Mapping[str, Any], name: str) -> Remap | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    times = (fields.number(key) for key in ("first_ns", "last_ns", "away_ns"))
    remap = Remap(fields.integer("moves"), *times)
    if not 0 <= remap.first_ns <= remap.last_ns:
        raise PagehaulError(f"{name}.first_ns: {remap.first_ns} is not from 0 to last_ns")
    return remap


def _parse_reads(entry: Mapping[str, Any], name: str) -> Reads | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    times = [fields.number(key) for key in ("warm_ns", "own_ns", "moved_ns")]
    if min(times) < 0:
        raise PagehaulError(f"{name}: times must not be negative")
    return Reads(fields.integer("moves"), *times)


def _parse_hog(entry: Mapping[str, Any], name: str) -> Hog | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    hog = Hog(fields.integer("moves"), fields.number("share"), fields.number("lost_ns"))
    if hog.share < 0 or hog.lost_ns < 0:
        raise PagehaulError(f"{name}: share and lost_ns must not be negative")
    return hog


def _parse_faults(entry: Mapping[str, Any], name: str) -> Faults | None:
    if not entry:
        return None
    fields = _Fields(entry, name)
    times = [
        tuple(fields.number_of(value, key) for value in fields.list(key))
        for key in ("ns", "cpu_ns", "user_ns", "latency_ns")
    ]
    if not times[0] or len({len(each) for each in times}) != 1:
        raise PagehaulError(f"{name}: needs one figure of each kind for each repetition")
    return Faults(*times)


def _check_ratio(row: Row, rows: Sequence[Row], name: str) -> None:
    baseline = find_baseline(row, rows)
    if row.vs_vanilla is None or baseline is None:
        return
    expected = row.median_gbps / baseline.median_gbps
    if not math.isclose(row.vs_vanilla, expected, rel_tol=_TOLERANCE):
        raise PagehaulError(
            f"{name}.vs_vanilla: {row.vs_vanilla} is not median_gbps by the baseline's, "
            f"{expected:.4f}"
        )


class _Fields:
    """Typed access to one JSON object, with errors that name the field."""

    def __init__(self, entry: object, name: str) -> None:
        if not isinstance(entry, dict):
            raise PagehaulError(f"{name}: must be an object")
        self._entry = entry
        self._name = name

    def get(self, key: str) -> object:
        if key not in self._entry:
            raise PagehaulError(f"{self._name}: {key} is missing")
        return self._entry[key]

    def integer_of(self, value: object, key: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not a whole number from 0 on")
        return value

    def number_of(self, value: object, key: str) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not a number")
        if not math.isfinite(value):
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not finite")
        return float(value)

    def integer(self, key: str, *, optional: bool = False) -> int:
        if optional and key not in self._entry:
            return 0
        return self.integer_of(self.get(key), key)

    def number(self, key: str) -> float:
        return self.number_of(self.get(key), key)

    def maybe_number(self, key: str, *, optional: bool = False) -> float | None:
        value = self._entry.get(key) if optional else self.get(key)
        return None if value is None else self.number_of(value, key)

    def string(self, key: str) -> str:
        return self.string_of(self.get(key), key)

    def maybe_string(self, key: str) -> str | None:
        value = self.get(key)
        return None if value is None else self.string_of(value, key)

    def boolean(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool):
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not true or false")
        return value

    def string_of(self, value: object, key: str) -> str:
        if not isinstance(value, str) or not value:
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not a name")
        return value

    def text(self, key: str) -> str:
        """Return an optional string, which may be empty."""
        value = self._entry.get(key, "")
        if not isinstance(value, str):
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not text")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.string(key)
        if value not in choices:
            raise PagehaulError(f"{self._name}.{key}: {value!r} is not one of {', '.join(choices)}")
        return value

    def list(self, key: str) -> list[object]:
        value = self.get(key)
        if not isinstance(value, list):
            raise PagehaulError(f"{self._name}.{key}: must be a list")
        return value

    def mapping(self, key: str, *, optional: bool = False) -> dict[str, Any]:
        value = self._entry.get(key) if optional else self.get(key)
        if optional and value is None:
            return {}
        if not isinstance(value, dict):
            raise PagehaulError(f"{self._name}.{key}: must be an object")
        return value
