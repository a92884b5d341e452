# SPDX-License-Identifier: GPL-2.0-only
"""The account of what has moved, as text and as JSON."""

import errno
import json
from collections import Counter
from dataclasses import dataclass, field

from pagehaul.errors import NoProcessError, PagehaulError
from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.outcome import Outcome, describe
from pagehaul.move.selection import Identity
from pagehaul.move.windows import Plan

# The exit status when pages stayed that were asked for, and nothing worse happened.
STAYED = 3


@dataclass(frozen=True)
class Request:
    """What the user asked for, checked against the machine."""

    plan: Plan
    move_all: bool
    threads: int
    kernel_shares: bool  # Pagehaul's interface is there and on


def pages_text(size: int) -> str:
    """Write `size` bytes with a decimal unit, and as base pages."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            text = f"{size / scale:.2f} {unit}"
            break
    else:
        text = f"{size} B"
    count = size // BASE_PAGE
    return f"{text} ({count} page{'' if count == 1 else 's'} of {BASE_PAGE >> 10} KB)"


@dataclass
class Part:
    """The account of one process; all sizes are in bytes."""

    pid: int
    name: str = ""
    on_nodes: dict[int, int] = field(default_factory=dict)  # of what is only counted
    outcome: Outcome = field(default_factory=Outcome)
    seconds: float = 0.0  # of searching and moving
    looks: int = 0
    untried: int = 0  # because something ended the moving before all was tried
    ended: bool = False  # the process
    error: PagehaulError | None = None
    _before: int = 0  # moved or gone before the last look

    def begin(self) -> None:
        """Begin to look for what is on the FROM nodes now; what stayed is tried again."""
        self.looks += 1
        self.outcome.left = Counter()
        self.untried = 0
        self._before = self.outcome.settled

    @property
    def found(self) -> int:
        """What was on the FROM nodes when it was looked for."""
        return sum(self.on_nodes.values()) or self.outcome.settled + self.untried

    def quiet(self, move_all: bool) -> bool:
        """Whether the last look found nothing to move, and nothing that should have moved."""
        return (
            self.outcome.settled - self._before
            == self.outcome.left.total()
            == self.left_out(move_all)
        )

    def left_out(self, move_all: bool) -> int:
        """Return the bytes that stayed because they are shared, and --all was not given."""
        return 0 if move_all else self.outcome.left[errno.EACCES]

    def complete(self, move_all: bool) -> bool:
        """Whether all was moved that was asked for, or has gone; see the exit status in --help."""
        if self.error is not None or self.ended:
            return self.error is None
        return self.outcome.left.total() == self.left_out(move_all) and self.untried == 0


def _sizes(parts: list[Part]) -> dict[str, object]:
    """Return the fields that the whole and each process have in common."""
    left: Counter[int] = Counter()
    for part in parts:
        left.update(part.outcome.left)
    return {
        "found_bytes": sum(part.found for part in parts),
        "moved_bytes": sum(part.outcome.moved for part in parts),
        "gone_bytes": sum(part.outcome.gone for part in parts),
        "untried_bytes": sum(part.untried for part in parts),
        "left": [
            {
                "errno": errno.errorcode.get(cause, str(cause)),
                "reason": describe(cause),
                "bytes": size,
                "pages": size // BASE_PAGE,
            }
            for cause, size in left.most_common()
            if size
        ],
    }


def _details(part: Part) -> list[str]:
    """Return lines for what has not moved of a process."""
    lines = []
    for cause, size in part.outcome.left.most_common():
        name = errno.errorcode.get(cause, str(cause))
        lines.append(f"  stayed: {pages_text(size)}: {describe(cause)} [{name}]")
    if part.outcome.gone:
        lines.append(f"  freed, swapped out or moved by others: {pages_text(part.outcome.gone)}")
    if part.untried:
        lines.append(f"  not tried: {pages_text(part.untried)}")
    return lines


class Report:
    """The account of all processes as it grows."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.parts: dict[Identity, Part] = {}
        self.missing: list[PagehaulError] = []  # one for each named process that is not there
        self.longest = 0.0  # seconds of the slowest call
        self.stop_status = 0  # of a signal that ended the work, as a shell writes it
        self.stop_word: str | None = None

    def part(self, identity: Identity) -> Part:
        """Return the account of a process."""
        return self.parts.setdefault(identity, Part(identity.pid))

    @property
    def begun(self) -> bool:
        """Whether a process has been looked at, so that there is something to tell."""
        return any(part.looks for part in self.parts.values())

    @property
    def _errors(self) -> list[PagehaulError]:
        return [each.error for each in self.parts.values() if each.error] + self.missing

    @property
    def failure(self) -> PagehaulError | None:
        """What to tell of the processes with an error; None when there are none."""
        errors = self._errors
        total = len(self.parts) + len(self.missing)
        if not errors or total == 1:
            return errors[0] if errors else None
        first = next((each for each in errors if not isinstance(each, NoProcessError)), errors[0])
        others = f" (and {len(errors) - 1} more of {total} processes)" if len(errors) > 1 else ""
        return type(first)(f"{first}{others}")

    @property
    def complete(self) -> bool:
        """Whether all was moved that was asked for, of all processes."""
        return (
            not self.stop_status
            and not self.missing
            and all(part.complete(self.request.move_all) for part in self.parts.values())
        )

    @property
    def status(self) -> int:
        """The exit status; see --help."""
        if self.stop_status:
            return self.stop_status
        failure = self.failure
        if failure is not None:
            return failure.status
        return 0 if self.complete else STAYED

    @property
    def seconds(self) -> float:
        """Seconds of wall-clock time spent on searching and moving."""
        return sum(part.seconds for part in self.parts.values())

    @property
    def moved(self) -> int:
        """Bytes moved, of all processes."""
        return sum(part.outcome.moved for part in self.parts.values())

    @property
    def gb_per_s(self) -> float:
        """Moved bytes by wall-clock time, scanning included; GB is 10^9 bytes."""
        return self.moved / self.seconds / 1e9 if self.seconds else 0.0

    def to_json(self) -> str:
        """Write the report as one JSON object; the user's guide names its fields."""
        request = self.request
        failure = self.failure
        value = {
            "from": list(request.plan.sources),
            "to": list(request.plan.destinations),
            "threads": request.threads,
            "kernel_shares": request.kernel_shares,
            **_sizes(list(self.parts.values())),
            "seconds": round(self.seconds, 6),
            "gb_per_s": round(self.gb_per_s, 3),
            "longest_call_ms": round(self.longest * 1e3, 3),
            "complete": self.complete,
            "status": self.status,
            "error": self.stop_word or (str(failure) if failure else None),
            "processes": [
                {
                    "pid": part.pid,
                    "name": part.name,
                    **_sizes([part]),
                    "ended": part.ended,
                    "complete": part.complete(request.move_all),
                    "error": str(part.error) if part.error else None,
                }
                for part in self.parts.values()
            ],
        }
        return json.dumps(value, indent=2)

    def to_text(self) -> str:
        """Write the report for a terminal."""
        request = self.request
        parts = list(self.parts.values())
        how = "1 caller" if request.threads == 1 else f"{request.threads} callers"
        if request.kernel_shares:
            how += ", several CPUs each"
        if len(parts) == 1:
            whom = f"process {parts[0].pid} ({parts[0].name})"
            lines = _details(parts[0])
        else:
            whom = f"{len(parts)} processes"
            lines = [line for part in parts for line in self._lines(part)]
        first = (
            f"moved {pages_text(self.moved)} of {whom} "
            f"in {self.seconds:.2f} s: {self.gb_per_s:.2f} GB/s ({how})"
        )
        last = [f"  {self.stop_word}"] if self.stop_word else []
        return "\n".join((first, *lines, *last))

    def _lines(self, part: Part) -> list[str]:
        """Return the lines of one process of several."""
        lines = [f"process {part.pid} ({part.name}): moved {pages_text(part.outcome.moved)}"]
        lines += _details(part)
        if part.error:
            lines.append(f"  error: {part.error}")
        elif part.ended:
            lines.append("  has ended")
        return lines

    def count_json(self) -> str:
        """Write what is on the FROM nodes as one JSON object; for --dry-run."""
        failure = self.failure
        nodes = self.request.plan.moving
        parts = self.parts.values()
        value = {
            "from": list(self.request.plan.sources),
            "to": list(self.request.plan.destinations),
            "found_bytes": sum(part.found for part in parts),
            "found_bytes_by_node": {
                str(node): sum(part.on_nodes.get(node, 0) for part in parts) for node in nodes
            },
            "status": self.stop_status or (failure.status if failure else 0),
            "error": self.stop_word or (str(failure) if failure else None),
            "processes": [
                {
                    "pid": part.pid,
                    "name": part.name,
                    "found_bytes": part.found,
                    "error": str(part.error) if part.error else None,
                }
                for part in parts
            ],
        }
        return json.dumps(value, indent=2)

    def count_text(self) -> str:
        """Write what is on the FROM nodes for a terminal; for --dry-run."""
        return "\n".join(
            f"process {part.pid} ({part.name}) has {pages_text(size)} on node {node}"
            for part in self.parts.values()
            for node, size in part.on_nodes.items()
        )
