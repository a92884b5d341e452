# SPDX-License-Identifier: GPL-2.0-only
"""What a measure is: something that is seen of a cell besides its speed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any, Generic, TypeVar

from pagehaul.bench import plain
from pagehaul.bench.cell import Cell
from pagehaul.bench.fields import Fields
from pagehaul.bench.row import Row
from pagehaul.bench.view import View

T = TypeVar("T")


@dataclass
class Observed:
    """What the benchmark programs have printed of one cell, all boots and rounds together.

    Lines of cells that could not be measured are not among them. counting is whether each
    nanosecond was an instruction of the move, or of the load, which the machine does nothing
    besides.
    """

    cell: Cell
    counting: bool = False
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    def repetitions(self) -> Iterator[tuple[int, float, float, int]]:
        """Yield of each repetition that moved something its moves, ns, CPU ns and bytes moved.

        A repetition of several moves has one figure of each, for all of them together.
        """
        for line in self.lines:
            figures = (moves_of(line), line["ns"], line["cpu_ns"], line["moved_bytes"])
            yield from (each for each in zip(*figures, strict=True) if each[3])

    def all_of(self, key: str) -> list[Any]:
        """Return what all lines have under a key, in a row; nothing of those without it."""
        return [value for line in self.lines for value in line.get(key, [])]

    def threes(self, names: tuple[str, str, str]) -> list[tuple[float, float, float]]:
        """Return three figures of each repetition, none where the program was not asked."""
        columns = (self.all_of(name) for name in names)
        return list(zip(*columns, strict=True))

    def counters(self) -> dict[str, int]:
        """Return the changes of kernel counters during all timed moves."""
        found: dict[str, int] = {}
        for line in self.lines:
            for name, value in line["counters"].items():
                found[name] = found.get(name, 0) + value
        return found


def moves_of(line: Mapping[str, Any]) -> Sequence[int]:
    """Return how many moves each repetition of a line has; a repetition of faultbench is one."""
    moves: Sequence[int] = line.get("moves", [1] * len(line["ns"]))
    return moves


def _no_words(_: Any) -> list[str]:
    return []


@dataclass(frozen=True)
class Measure(Generic[T]):
    """Something that is seen of a cell besides its speed, as a `kind`: a number or a data class.

    name is that of its field in the results, and of what cells ask for. Of several that were seen
    in an experiment, the view of the one with the lowest place tells it. collect makes the figure
    of what was printed, None if nothing was seen; check raises PagehaulError for one of a file that
    cannot be, with its name there. words are the options of the benchmark program for what a cell
    asks. least_us is how long a repetition lasts then at least, 0 for a single move; None for as
    long as others. costs tells whether it is about what moves cost others. A required one is in
    each row of a file, even if it is null there.
    """

    name: str
    kind: type[T]
    place: int
    collect: Callable[[Observed], T | None]
    check: Callable[[T, str], None] | None = None
    words: Callable[[Any], list[str]] = _no_words
    least_us: int | None = None
    view: View | None = None
    costs: bool = False
    required: bool = False

    def of(self, row: Row) -> T | None:
        """Return what was seen of a row, None for nothing."""
        found: T | None = row.seen.get(self.name)
        return found

    def ask(self, cell: Cell, how: object = True) -> Cell:
        """Return a cell that asks for it, too; `how` is for words()."""
        return replace(cell, asks={**cell.asks, self.name: how})

    def plain(self, row: Row) -> Any:
        """Return what was seen of a row as JSON has it."""
        found: Any = self.of(row)
        return asdict(found) if is_dataclass(found) and not isinstance(found, type) else found

    def read(self, fields: Fields) -> T | None:
        """Return what a row of a file says of it; PagehaulError for something that cannot be."""
        if not is_dataclass(self.kind):
            number: Any = fields.maybe_number(self.name, optional=not self.required)
            return number  # type: ignore[no-any-return]
        entry = fields.mapping(self.name, optional=True)
        if not entry:
            return None
        where = f"{fields.name}.{self.name}"
        found: Any = plain.read(self.kind, Fields(entry, where))
        if self.check is not None:
            self.check(found, where)
        return found  # type: ignore[no-any-return]
