# SPDX-License-Identifier: GPL-2.0-only
"""The machines that a guest in virtual time can be: machines/NAME.toml, with the source of each.

A file has a `title`, `about`, and for each parameter a table `[parameters.X]` with `value`, a whole
number, and `source`, which says where that comes from. Where the model is far from what was
published of the machine, a table `[[deviations]]` says why: `series` and `folio_kb` say of which
figures, `most_folios` (optional) of how many folios at most, and `why`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.paths import REPO

DEFAULT = "plain"

_DIRECTORY = REPO / "machines"

# Parameters that cannot be 0, which for all others means that it costs nothing, or has no limit.
_POSITIVE = ("channel_group", "channel_mb_s", "instruction_ps", "node_caches", "slice_ns")


@dataclass(frozen=True)
class Deviation:
    """Why a model is far from published figures: of a series, a folio size, so many folios."""

    series: str
    folio_kb: int
    why: str
    most_folios: int | None = None


@dataclass(frozen=True)
class Model:
    """What takes how long on a machine.

    instruction_ps is for an instruction, pause_ns what `pause` takes besides, in loops that wait.
    copy_*_ps are for a byte that a copy or a fill loads or stores: near on a node of the CPU's own,
    far on another with CPUs, slow on one without. load_*_ns are for a load of which a program says
    that no cache answers it (bench/mark.h). node_mb_s is the most that all CPUs together load and
    store so on a node, slow_mb_s on one without CPUs, cache_mb_s the most that the CPUs of a
    last-level cache copy together, 0 for no limit. A node has node_caches of these; a guest with
    fewer CPUs than the machine has fewer for each. line_*_ns are for a cache line that a
    lock-prefixed instruction takes and another CPU took last: one with the same last-level cache,
    one of the same node, one of another. ipi_ns is for an interrupt from CPU to CPU, wake_ns for an
    idle CPU to wake up. channel_mb_s is the speed of a DMA channel, and channel_ns what a transfer
    takes it besides; channel_group of them share channel_group_mb_s, all together channels_mb_s, 0
    for no limit. channel_page_ns is what the published channels took besides for each base page of
    a small folio: `validation` alone has it. slice_ns is the longest that a CPU runs ahead of the
    others.
    """

    name: str
    title: str
    about: str
    instruction_ps: int
    pause_ns: int
    copy_load_near_ps: int
    copy_load_far_ps: int
    copy_load_slow_ps: int
    copy_store_near_ps: int
    copy_store_far_ps: int
    copy_store_slow_ps: int
    load_near_ns: int
    load_far_ns: int
    load_slow_ns: int
    node_mb_s: int
    slow_mb_s: int
    cache_mb_s: int
    line_cache_ns: int
    line_socket_ns: int
    line_far_ns: int
    node_caches: int
    ipi_ns: int
    wake_ns: int
    channel_mb_s: int
    channel_ns: int
    channel_group: int
    channel_group_mb_s: int
    channels_mb_s: int
    channel_page_ns: int
    slice_ns: int
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    deviations: tuple[Deviation, ...] = field(default=(), compare=False, repr=False)

    def parameters(self) -> dict[str, int]:
        """Return the value of each parameter."""
        return {name: getattr(self, name) for name in PARAMETERS}


_NO_PARAMETERS = ("name", "title", "about", "sources", "deviations")
PARAMETERS = tuple(entry.name for entry in fields(Model) if entry.name not in _NO_PARAMETERS)


def names() -> tuple[str, ...]:
    """Return the names of the models, the default first."""
    found = sorted(path.stem for path in _DIRECTORY.glob("*.toml"))
    return tuple(sorted(found, key=lambda name: name != DEFAULT))


def load(name: str) -> Model:
    """Return the model of that name; PagehaulError if there is none, or its file is wrong."""
    if name not in names():
        raise PagehaulError(f"unknown machine model {name!r}: use one of {', '.join(names())}")
    return read(_DIRECTORY / f"{name}.toml")


def read(path: Path) -> Model:
    """Return the model in a file; PagehaulError if that is wrong."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PagehaulError(f"{path}: not a model: {error}") from error
    for key in content.keys() - {"title", "about", "parameters", "deviations"}:
        raise PagehaulError(f"{path}: unknown entry {key!r}")
    for key in ("title", "about"):
        if not _is_text(content.get(key)):
            raise PagehaulError(f"{path}: {key!r} is missing")
    tables = content.get("parameters")
    if not isinstance(tables, dict):
        raise PagehaulError(f"{path}: it has no parameters")
    for key in tables:
        if key not in PARAMETERS:
            raise PagehaulError(f"{path}: unknown parameter {key!r}")
    values, sources = {}, {}
    for key in PARAMETERS:
        if key not in tables:
            raise PagehaulError(f"{path}: parameter {key!r} is missing")
        values[key], sources[key] = _parameter(path, key, tables[key])
    return Model(
        path.stem,
        content["title"],
        content["about"],
        sources=sources,
        deviations=_deviations(path, content.get("deviations", [])),
        **values,
    )


def _deviations(path: Path, tables: object) -> tuple[Deviation, ...]:
    """Return the explanations in a model's file."""
    try:
        if not isinstance(tables, list):
            raise TypeError("no list of tables")
        found = tuple(Deviation(**table) for table in tables)
    except TypeError as error:
        raise PagehaulError(f"{path}: [[deviations]]: {error}") from error
    for each in found:
        if not (_is_text(each.series) and _is_text(each.why) and isinstance(each.folio_kb, int)):
            raise PagehaulError(f"{path}: [[deviations]] need series, folio_kb and why")
    return found


def _parameter(path: Path, name: str, table: object) -> tuple[int, str]:
    """Return a parameter's value and source."""
    if not isinstance(table, dict):
        raise PagehaulError(f"{path}: [parameters.{name}] is no table with value and source")
    for key in table.keys() - {"value", "source"}:
        raise PagehaulError(f"{path}: parameter {name!r}: unknown entry {key!r}")
    value, source = table.get("value"), table.get("source")
    least = 1 if name in _POSITIVE else 0
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PagehaulError(
            f"{path}: parameter {name!r}: {value!r} is not a whole number of {least} or more"
        )
    if not _is_text(source):
        raise PagehaulError(f"{path}: parameter {name!r} has no source")
    return value, str(source)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
