# SPDX-License-Identifier: GPL-2.0-only
"""Moving the pages of one process after the other."""

import errno
import os
import time
from functools import partial

import numpy as np

from pagehaul.errors import NoProcessError, PagehaulError
from pagehaul.host.nodes import format_nodes
from pagehaul.move.addrspace import Kind, NoMemoryError, Process
from pagehaul.move.callers import prepare, relocate
from pagehaul.move.frames import Frames
from pagehaul.move.mappings import BASE_PAGE, bytes_by_node, spans
from pagehaul.move.movepages import MovePages, Status
from pagehaul.move.outcome import Outcome
from pagehaul.move.pace import Pace
from pagehaul.move.progress import Progress
from pagehaul.move.relocate import Relocator
from pagehaul.move.report import Part, Report, Request
from pagehaul.move.selection import Identity, Selection, read_stat
from pagehaul.move.stop import SignalStop, Stop
from pagehaul.move.windows import Plan, Window, windows

# Base pages of a part from which on pagemap is read for it.
_PART_PAGES = 32

# Seconds between two looks at processes that are watched.
_WATCH_S = 1.0


def _lost(process: Process, resident: int) -> int:
    """Return how many of the `resident` bytes the process has no longer in memory, about."""
    if not process.same_memory():
        return resident
    lost = resident - process.resident()[0]
    cpus = os.cpu_count() or 1
    # The kernel counts on each CPU, and until there are so many pages, nobody else sees it.
    unseen = max(32, 2 * cpus) * cpus * BASE_PAGE
    return lost if lost > unseen else 0


def _check_cpuset(process: Process, plan: Plan) -> None:
    allowed = process.allowed_nodes()
    if allowed is None:
        return
    outside = [node for node in plan.destinations if node not in allowed]
    if outside:
        raise PagehaulError(
            f"the cpuset of process {process.pid} does not permit node {format_nodes(outside)}: "
            f"it permits {format_nodes(allowed)}"
        )


def _refusal(request: Request, exc: OSError, process: Process) -> PagehaulError:
    """Turn an error of move_pages(2) into a line for the user."""
    pid = process.pid
    if exc.errno == errno.ENOSYS:
        return PagehaulError("this kernel has no move_pages(2) (CONFIG_NUMA, CONFIG_MIGRATION)")
    if exc.errno == errno.ESRCH or not process.alive():
        return NoProcessError(f"process {pid} ended while its pages were moved")
    if exc.errno == errno.EPERM:
        return PagehaulError(
            f"no permission to move pages of process {pid}: "
            "run as its user or as root (CAP_SYS_PTRACE)"
        )
    if exc.errno == errno.EACCES:
        return PagehaulError(
            f"the cpuset of process {pid} does not permit "
            f"node {format_nodes(request.plan.destinations)} any more"
        )
    if exc.errno == errno.ENODEV:
        return PagehaulError(
            f"node {format_nodes(request.plan.destinations)} went offline during the move"
        )
    return PagehaulError(f"move_pages(2) on process {pid}: {exc.strerror}")


def _probe(request: Request, process: Process) -> MovePages:
    """Let the kernel check permission before any work; raises PagehaulError."""
    exists = process.hold()
    mover = MovePages(process.pid, move_all=request.move_all, exists=exists)
    try:
        mover.probe()
        if request.kernel_shares:
            mover.share()
    except OSError as exc:
        if request.move_all and exc.errno == errno.EPERM:
            try:
                MovePages(process.pid, exists=exists).probe()
            except OSError:
                pass
            else:
                raise PagehaulError(
                    "--all needs CAP_SYS_NICE: run as root, or leave it out"
                ) from exc
        raise _refusal(request, exc, process) from exc
    return mover


def _locate(process: Process, frames: Frames | None, window: Window) -> Status | None:
    """Return the nodes of a window's pages; None where the kernel is sooner asked for them."""
    few = window.size // BASE_PAGE < _PART_PAGES * len(window.parts)
    if frames is None or window.kind is not Kind.BASE or few:
        return None
    return np.concatenate([frames.nodes(process.entries(*part)) for part in window.parts])


class Work:
    """Moves what a selection of processes has on the FROM nodes; `report` is valid at any time."""

    def __init__(
        self, request: Request, selection: Selection, pace: Pace, progress: Progress
    ) -> None:
        self.request = request
        self.report = Report(request)
        self.report.missing = [
            NoProcessError(f"there is no process {pid}") for pid in selection.missing
        ]
        self._selection = selection
        self._pace = pace
        self._progress = progress
        self._frames = Frames.find()

    def count(self, stop: SignalStop) -> None:
        """Look what is on the FROM nodes, and move nothing."""
        for identity in self._selection.find():
            if not stop.is_set():
                self._visit(identity, stop, dry=True)
        self._end(stop)

    def run(self, stop: SignalStop, watch: float | None = None) -> None:
        """Move until a look finds no process that is new.

        With `watch`, go on so many seconds, or until a look finds nothing on the FROM nodes that
        is to move. When `stop` is set, what the kernel has begun ends, and nothing more begins.
        """
        prepare()
        end = time.monotonic() + (watch or 0.0)
        while True:
            visited = self._all_once(stop)
            left = end - time.monotonic()
            calm = all(part.quiet(self.request.move_all) for part in visited)
            if watch is None or calm or left <= 0 or stop.wait(min(_WATCH_S, left)):
                break
        self.report.longest = self._pace.calls.longest
        self._end(stop)

    def _end(self, stop: SignalStop) -> None:
        self.report.stop_status = stop.status
        self.report.stop_word = stop.word

    def _all_once(self, stop: Stop) -> list[Part]:
        """Move what each process has; also of those that appear during that."""
        visited: dict[Identity, Part] = {}
        while new := [each for each in self._selection.find() if each not in visited]:
            for identity in new:
                if stop.is_set():
                    return list(visited.values())
                visited[identity] = self._visit(identity, stop)
        return list(visited.values())

    def _visit(self, identity: Identity, stop: Stop, dry: bool = False) -> Part:
        """Move what one process has; an error is noted in its part of the report."""
        part = self.report.part(identity)
        if part.ended:
            return part
        part.error = None
        named = identity in self._selection.named
        try:
            with Process(identity.pid, self._selection.proc) as process:
                self._begin(process, identity, part)
                if dry:
                    part.on_nodes = self._on_nodes(process)
                else:
                    self._move(process, part, stop)
        except NoProcessError as exc:
            part.ended = True
            # One that ends later was moved before; one that nobody named may end at any time.
            if named and part.looks <= 1:
                part.error = exc
        except NoMemoryError as exc:
            if named:
                part.error = exc
            else:
                part.ended = True
        except PagehaulError as exc:
            part.error = exc
        return part

    def _begin(self, process: Process, identity: Identity, part: Part) -> None:
        stat = read_stat(identity.pid, self._selection.proc)
        if stat is None or stat.born != identity.born or not process.exists():
            raise NoProcessError(f"there is no process {identity.pid}: it has ended")
        _check_cpuset(process, self.request.plan)
        part.name = process.name()
        part.begin()

    def _on_nodes(self, process: Process) -> dict[int, int]:
        """Return the bytes on each of the FROM nodes, for which the kernel looks at every page."""
        return bytes_by_node(process.numa_maps(), self.request.plan.moving)

    def _untried(self, process: Process, part: Part) -> int:
        """Return the bytes on the FROM nodes of which no call has said why they stayed."""
        try:
            there = sum(self._on_nodes(process).values())
        except PagehaulError:
            return 0
        return max(there - part.outcome.left.total(), 0)

    def _move(self, process: Process, part: Part, stop: Stop) -> None:
        plan = self.request.plan
        resident, hugetlb = process.resident()
        can_scan = process.can_scan()
        relocator = Relocator(
            _probe(self.request, process),
            plan,
            stop,
            self._pace.calls,
            partial(_locate, process, self._frames if can_scan else None),
        )
        self._pace.begin(resident, self.request.threads)
        if part.looks == 1:
            self._progress.begin(process.pid, resident)
        # One CPU would look at all pages before the first one moves. Callers ask where theirs are,
        # which they do at the same time. Most of what is watched is where it should be.
        mappings = process.mappings(look=hugetlb > 0 or part.looks > 1 or not can_scan)
        there = spans(mappings, plan.moving, can_scan)
        work = windows(process, there, self._pace.window_bytes, plan.grain)

        def settle(outcome: Outcome) -> None:
            part.outcome.add(outcome)
            self._progress.settle(outcome)

        started = time.monotonic()
        cut_short = True
        try:
            relocate(relocator, work, self.request.threads, settle, self._pace)
            cut_short = stop.is_set()
            if not cut_short and part.looks == 1:
                # Pages that went before a search came to them are in no outcome yet.
                lost = _lost(process, resident) - part.outcome.gone
                settle(Outcome(gone=max(min(lost, resident - part.outcome.settled), 0)))
        except OSError as exc:
            raise _refusal(self.request, exc, process) from exc
        finally:
            part.seconds += time.monotonic() - started
            if cut_short:
                part.untried = self._untried(process, part)
        if not process.alive():
            raise NoProcessError(f"process {process.pid} ended while its pages were moved")
