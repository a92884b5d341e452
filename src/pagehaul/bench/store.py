# SPDX-License-Identifier: GPL-2.0-only
"""The JSON file of results, and its validation.

docs/method.md describes every field, data/results.schema.json is its JSON Schema.
"""

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagehaul.bench.fields import Fields
from pagehaul.bench.known import MEASURES
from pagehaul.bench.row import (
    CLOCKS,
    KERNELS,
    METHODS,
    Integrity,
    Results,
    Row,
    Statement,
    find_baseline,
)
from pagehaul.errors import PagehaulError
from pagehaul.paths import cache_dir

SCHEMA = 2

# How far a stored figure may be from the one computed of the stored measurements: rounding only.
_TOLERANCE = 1e-3


def entry_of(row: Row) -> dict[str, Any]:
    """Return a row as it is written: what was seen stands beside the other fields."""
    entry = asdict(row)
    del entry["seen"]
    return entry | {measure.name: measure.plain(row) for measure in MEASURES}


def seen_in(fields: Fields) -> dict[str, Any]:
    """Return what was seen of a row, by the names of the measures, of what is written of it."""
    found = {measure.name: measure.read(fields) for measure in MEASURES}
    return {name: value for name, value in found.items() if value is not None}


def keep(results: Results) -> Path:
    """Keep results in the cache, and return where."""
    path = _directory() / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"
    dump(results, path)
    return path


def last(results: Results) -> Results | None:
    """Return the last results in the cache that were kept of the same cells, None without any."""
    cells = _cells(results)
    for path in sorted(_directory().glob("bench-*.json"), reverse=True):
        try:
            found = load(path)
        except PagehaulError:
            # Of another version, or cut off.
            continue
        same = _cells(found) == cells and _versions(found) == _versions(results)
        if same and not found.interrupted:
            return found
    return None


def _cells(results: Results) -> set[tuple[object, ...]]:
    return {
        (row.experiment, row.kernel, row.method, row.threads, row.case, *row.machine)
        for row in results.rows
    }


def _versions(results: Results) -> tuple[object, ...]:
    """Return what else must be the same: how much is measured, and on which kernels."""
    environment = results.environment
    return environment.get("quick"), environment.get("kernels")


def _directory() -> Path:
    directory = cache_dir() / "results"
    directory.mkdir(exist_ok=True)
    return directory


def dump(results: Results, path: Path) -> None:
    """Write `results` as JSON; only what load() accepts is ever written."""
    document = {
        "schema": SCHEMA,
        "environment": dict(results.environment),
        "rows": [entry_of(row) for row in results.rows],
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
    top = Fields(document, name)
    schema = top.integer("schema")
    if schema != SCHEMA:
        older = schema < SCHEMA
        hint = ": measure again with this version" if older else ""
        raise PagehaulError(f"{name}: schema {schema} is not supported, only {SCHEMA} is{hint}")
    environment = top.mapping("environment")
    rows = tuple(
        _parse_row(entry, f"{name}: rows[{index}]") for index, entry in enumerate(top.list("rows"))
    )
    integrity = Fields(top.get("integrity"), f"{name}: integrity")
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
    fields = Fields(entry, name)
    return Statement(fields.string("text"), fields.boolean("good"))


def _parse_row(entry: object, name: str) -> Row:
    fields = Fields(entry, name)
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
        counters={
            key: fields.integer_of(value, f"counters.{key}")
            for key, value in fields.mapping("counters", optional=True).items()
        },
        settings={
            key: fields.string_of(value, f"settings.{key}")
            for key, value in fields.mapping("settings", optional=True).items()
        },
        condition=fields.text("condition"),
        channels=fields.integer("channels", optional=True),
        cpus=fields.integer("cpus"),
        model=fields.maybe_string("model"),
        clock=fields.choice("clock", CLOCKS),
        seen=seen_in(fields),
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
