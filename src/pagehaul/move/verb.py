# SPDX-License-Identifier: GPL-2.0-only
"""The `move` verb: move a process's pages between NUMA nodes of the running kernel."""

import argparse
import errno
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.move.addrspace import BASE_PAGE, Mapping, Process, thp_size
from pagehaul.move.callers import relocate
from pagehaul.move.movepages import MovePages
from pagehaul.move.nodelist import format_nodes, memory_nodes, parse_nodes
from pagehaul.move.outcome import Outcome, describe
from pagehaul.move.relocate import Relocator
from pagehaul.move.windows import Plan, window_bytes, windows

# Pagehaul's controls; absent on an unmodified kernel.
_MIGRATE_COPY = Path("/sys/kernel/mm/migrate_copy")

# More callers than this contend for the locks of one address space.
_MOST_CALLERS = 8

# The exit status of a program that Ctrl-C ended.
_INTERRUPTED = 130

_EXIT_CODES = """\
exit status: 0 when every page was moved that could be asked for; pages that other processes map
too count as asked for only with --all. 1 when something stayed (the report says how much and
why) or on an error, 2 on wrong usage, 130 after Ctrl-C.
"""


@dataclass(frozen=True)
class Request:
    """What the user asked for, checked against the machine."""

    pid: int
    name: str
    plan: Plan
    move_all: bool
    threads: int
    kernel_shares: bool  # Pagehaul's interface is there and on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `move`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXIT_CODES
    parser.add_argument("pid", type=int, metavar="PID", help="the process")
    parser.add_argument(
        "source", metavar="FROM", help='nodes to empty: "0", "0,2", "0-3", "!1" or "all"'
    )
    parser.add_argument(
        "destination",
        metavar="TO",
        help="nodes to fill: as many as FROM, and each FROM node has its own; "
        "else pages are spread over them",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help=f"callers of move_pages(2), each with its own ranges (default: the CPUs, at most "
        f"{_MOST_CALLERS}; 1 where the kernel itself lets several CPUs move pages)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="move_all",
        help="also move pages that other processes map (needs CAP_SYS_NICE)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only count what lies on the FROM nodes"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


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


def make_plan(source: str, destination: str) -> Plan:
    """Check FROM and TO against this machine; raises PagehaulError."""
    usable = memory_nodes()
    if len(usable) < 2:
        raise PagehaulError(
            f"this machine has one NUMA node with memory (node {format_nodes(usable)}): "
            "there is nowhere to move pages to"
        )
    plan = Plan(parse_nodes(source, "FROM"), parse_nodes(destination, "TO"), thp_size())
    if not plan.moving:
        raise PagehaulError(
            f"nothing to do from node {format_nodes(plan.sources)} "
            f"to node {format_nodes(plan.destinations)}: pages on a TO node stay there"
        )
    return plan


def kernel_shares(controls: Path = _MIGRATE_COPY) -> bool:
    """Whether the running kernel lets several CPUs move one caller's pages, and is set to."""
    try:
        on = (controls / "enabled").read_text().strip() == "1"
        return on and int((controls / "max_helpers").read_text()) > 0
    except (OSError, ValueError):
        return False


def default_threads(shares: bool) -> int:
    """How many callers to use: the CPUs, at most eight; or one that the kernel helps."""
    return 1 if shares else min(len(os.sched_getaffinity(0)), _MOST_CALLERS)


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
    if exc.errno == errno.ENOSYS:
        return PagehaulError("this kernel has no move_pages(2) (CONFIG_NUMA, CONFIG_MIGRATION)")
    if exc.errno == errno.ESRCH or not process.alive():
        return PagehaulError(f"process {request.pid} ended while its pages were moved")
    if exc.errno == errno.EPERM:
        return PagehaulError(
            f"no permission to move pages of process {request.pid}: "
            "run as its user or as root (CAP_SYS_PTRACE)"
        )
    if exc.errno == errno.EACCES:
        return PagehaulError(
            f"the cpuset of process {request.pid} does not permit "
            f"node {format_nodes(request.plan.destinations)} any more"
        )
    if exc.errno == errno.ENODEV:
        return PagehaulError(
            f"node {format_nodes(request.plan.destinations)} has gone offline meanwhile"
        )
    return PagehaulError(f"move_pages(2) on process {request.pid}: {exc.strerror}")


def _probe(request: Request, process: Process) -> MovePages:
    """Let the kernel check permission before any work; raises PagehaulError."""
    mover = MovePages(request.pid, move_all=request.move_all)
    try:
        mover.probe()
        if request.kernel_shares:
            mover.share()
    except OSError as exc:
        if request.move_all and exc.errno == errno.EPERM:
            try:
                MovePages(request.pid).probe()
            except OSError:
                pass
            else:
                raise PagehaulError(
                    "--all needs CAP_SYS_NICE: run as root, or leave it out"
                ) from exc
        raise _refusal(request, exc, process) from exc
    return mover


class Report:
    """The outcome as it grows, and its two ways to the user: text and JSON."""

    def __init__(self, request: Request, found: int) -> None:
        self.request = request
        self.found = found
        self.outcome = Outcome()
        self.seconds = 0.0
        self.error: str | None = None

    @property
    def complete(self) -> bool:
        """Whether all was moved that was asked for; see the exit status in --help."""
        asked = self.outcome.left.copy()
        if not self.request.move_all:
            del asked[errno.EACCES]
        return asked.total() == 0 and self.error is None

    @property
    def gb_per_s(self) -> float:
        """Moved bytes by wall-clock time, scanning included; GB is 10^9 bytes."""
        return self.outcome.moved / self.seconds / 1e9 if self.seconds else 0.0

    def to_json(self) -> str:
        """Write the report as one JSON object; the user's guide names its fields."""
        plan = self.request.plan
        value = {
            "pid": self.request.pid,
            "name": self.request.name,
            "from": list(plan.sources),
            "to": list(plan.destinations),
            "threads": self.request.threads,
            "kernel_shares": self.request.kernel_shares,
            "found_bytes": self.found,
            "moved_bytes": self.outcome.moved,
            "gone_bytes": self.outcome.gone,
            "left": [
                {
                    "errno": errno.errorcode.get(cause, str(cause)),
                    "reason": describe(cause),
                    "bytes": size,
                    "pages": size // BASE_PAGE,
                }
                for cause, size in self.outcome.left.most_common()
            ],
            "seconds": round(self.seconds, 6),
            "gb_per_s": round(self.gb_per_s, 3),
            "complete": self.complete,
            "error": self.error,
        }
        return json.dumps(value, indent=2)

    def to_text(self) -> str:
        """Write the report for a terminal."""
        request, outcome = self.request, self.outcome
        how = "1 caller" if request.threads == 1 else f"{request.threads} callers"
        if request.kernel_shares:
            how += ", several CPUs each"
        lines = [
            f"moved {pages_text(outcome.moved)} of process {request.pid} ({request.name}) "
            f"in {self.seconds:.2f} s: {self.gb_per_s:.2f} GB/s ({how})"
        ]
        for cause, size in outcome.left.most_common():
            name = errno.errorcode.get(cause, str(cause))
            lines.append(f"  stayed: {pages_text(size)}: {describe(cause)} [{name}]")
        if outcome.gone:
            lines.append(f"  gone meanwhile: {pages_text(outcome.gone)}")
        return "\n".join(lines)


def _dry_run(request: Request, mappings: Sequence[Mapping], as_json: bool) -> None:
    plan = request.plan
    by_node = {node: sum(each.bytes_on([node]) for each in mappings) for node in plan.moving}
    if as_json:
        value = {
            "pid": request.pid,
            "name": request.name,
            "from": list(plan.sources),
            "to": list(plan.destinations),
            "found_bytes": sum(by_node.values()),
            "found_bytes_by_node": {str(node): size for node, size in by_node.items()},
        }
        print(json.dumps(value, indent=2))
        return
    for node, size in by_node.items():
        print(f"process {request.pid} ({request.name}) has {pages_text(size)} on node {node}")


def _move(
    report: Report, process: Process, mover: MovePages, mappings: Sequence[Mapping], quiet: bool
) -> None:
    """Move `mappings`; the report is valid after an exception too, up to where it happened."""
    request = report.request
    relocator = Relocator(mover, request.plan)
    limit = window_bytes(report.found, request.threads)
    work = windows(process, mappings, limit, request.plan.grain)
    progress = Progress(
        TextColumn("moving"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=ui.console,
        transient=True,
        disable=quiet or not ui.console.is_terminal,
    )
    started = time.monotonic()
    with progress:
        task = progress.add_task("move", total=report.found)

        def settle(outcome: Outcome) -> None:
            report.outcome.add(outcome)
            progress.advance(task, outcome.settled)

        try:
            relocate(relocator, work, request.threads, settle)
        finally:
            report.seconds = time.monotonic() - started


def run(args: argparse.Namespace) -> int:
    """Run `move`; raises PagehaulError, returns the exit status that --help documents."""
    if args.pid <= 0:
        raise PagehaulError(f"{args.pid} is not the number of a process")
    if args.threads is not None and args.threads < 1:
        raise PagehaulError("--threads needs at least 1")
    with Process(args.pid) as process:
        plan = make_plan(args.source, args.destination)
        _check_cpuset(process, plan)
        mappings = [each for each in process.mappings() if each.bytes_on(plan.moving)]
        found = sum(each.bytes_on(plan.moving) for each in mappings)
        shares = kernel_shares()
        threads = args.threads or default_threads(shares)
        request = Request(args.pid, process.name(), plan, args.move_all, threads, shares)
        if args.dry_run:
            _dry_run(request, mappings, args.json)
            return 0
        mover = _probe(request, process)
        report = Report(request, found)
        status = 0
        failure: PagehaulError | None = None
        try:
            _move(report, process, mover, mappings, args.json)
        except OSError as exc:
            failure = _refusal(request, exc, process)
            report.error = str(failure)
        except KeyboardInterrupt:
            status = _INTERRUPTED
            report.error = "interrupted"
        print(report.to_json() if args.json else report.to_text())
        if failure is not None:
            raise failure
        return status or (0 if report.complete else 1)
