# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark programs have seen: from their lines to rows."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pagehaul.bench.known import MEASURES
from pagehaul.bench.labels import shape_label
from pagehaul.bench.machines.places import Place
from pagehaul.bench.measure import Observed
from pagehaul.bench.row import DETERMINISM, Row
from pagehaul.errors import PagehaulError
from pagehaul.paths import REPO, cache_dir


@dataclass
class Tally:
    """What was verified, and what is worth telling besides figures."""

    bytes_verified: int = 0
    mismatches: int = 0
    not_moved: int = 0
    interrupted: bool = False
    boots: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Tell `text`, once, without paths: users publish results."""
        for path, name in ((cache_dir(), "CACHE"), (REPO, "CLONE")):
            text = text.replace(str(path), name)
        if text not in self.notes:
            self.notes.append(text)


def collect(line: dict[str, Any], experiment: str, observed: Observed, tally: Tally) -> None:
    """Add one line of a benchmark program to what was observed of its cell."""
    cell = observed.cell
    where = f"{experiment}, {shape_label(cell.shape.folio_kb, cell.shape.folios)}"
    if cell.condition:
        where += f", {cell.condition}"
    tally.bytes_verified += line["bytes_verified"]
    tally.mismatches += line["mismatches"]
    tally.not_moved += line["not_moved"]
    if line["error"] is not None:
        if not cell.optional:
            raise PagehaulError(f"{where}, {cell.method} on {cell.kernel}: {line['error']}")
        tally.note(f"{where}: left out: {line['error']}")
        return
    if line["not_moved"] and cell.kernel == "vanilla":
        raise PagehaulError(
            f"{where}: vanilla did not move {line['not_moved']} folios: {line['statuses']}"
        )
    if line["not_moved"]:
        tally.note(
            f"{where}, {cell.method}: {line['not_moved']} folios did not move: {line['statuses']}"
        )
    observed.lines.append(line)


def row_of(experiment: str, observed: Observed, place: Place) -> Row | None:
    """Return the row of a cell, None for one that could not be measured."""
    cell = observed.cell
    gbps = tuple(moved / ns for _, ns, _, moved in observed.repetitions())
    if not gbps:
        return None
    seen = {measure.name: measure.collect(observed) for measure in MEASURES}
    return Row(
        experiment=experiment,
        kernel=cell.kernel,
        method=cell.method,
        threads=cell.threads,
        folio_kb=cell.shape.folio_kb,
        folios=cell.shape.folios,
        bytes=cell.shape.bytes,
        gbps=gbps,
        median_gbps=statistics.median(gbps),
        vs_vanilla=None,
        vs_vanilla_min=None,
        vs_vanilla_max=None,
        counters=observed.counters(),
        settings=cell.told_settings,
        condition=cell.condition,
        channels=cell.channels,
        cpus=place.cpus,
        model=place.model,
        clock=place.clock,
        seen={name: value for name, value in seen.items() if value is not None},
    )


def check_determinism(rows: Iterable[Row], tally: Tally) -> None:
    """Note which counts of instructions differ from the others of their cell."""
    for row in rows:
        off = len(row.gbps) - row.within(DETERMINISM)
        if off:
            tally.note(
                f"{row.experiment}, {shape_label(*row.shape)}, {row.method} on {row.kernel}: "
                f"{off} of {len(row.gbps)} counts are more than {DETERMINISM:.1%} from the median"
            )
