# SPDX-License-Identifier: GPL-2.0-only
"""The `move` verb: moves pages of processes between nodes of the running kernel."""

import argparse
import sys

from pagehaul.cli.parser import print_error
from pagehaul.errors import NoProcessError, PagehaulError, UsageError
from pagehaul.move import planning
from pagehaul.move.pace import Pace
from pagehaul.move.progress import KINDS, JsonLines, Progress
from pagehaul.move.report import STAYED, Report, Request
from pagehaul.move.selection import Selection, find_cgroup
from pagehaul.move.stop import SignalStop
from pagehaul.move.tiers import TIERS
from pagehaul.move.work import Work

_EPILOG = f"""\
Options come before the processes and nodes, or after them.

exit status:
  0    all was moved that was asked for; pages that other processes map too are asked for only
       with --all
  1    an error, such as no permission
  2    wrong usage
  {STAYED}    something stayed: the report says how much and why
  4    a named process does not exist, or ended during the move; or a cgroup or tree has none
  130  after Ctrl-C
  143  after SIGTERM
If several apply, the first in the order 130, 143, 1, 4, {STAYED}, 0. Except for 2, the report says
what has moved; that stays on its new node.

examples:
  pagehaul move 1234 0 1                   from node 0 to node 1
  pagehaul move --tree 1234 0-3 4,5        a process and all below it, spread over two nodes
  pagehaul move --cgroup db.slice all 0 --dry-run
"""


def _positive(text: str) -> float:
    """Read a number greater than 0; for argparse."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


_positive.__name__ = "positive number"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `move`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = (
        f"{parser.prog} [OPTION ...] [PID ...] FROM TO\n"
        f"       {parser.prog} [OPTION ...] [PID ...] --to-tier {{{','.join(TIERS)}}}"
    )
    # The first takes all words: with --to-tier there are no nodes among them.
    parser.add_argument("words", nargs="*", metavar="PID", help="the processes")
    parser.add_argument(
        "source",
        nargs="?",
        metavar="FROM",
        help="nodes to empty: 0, or 0,2, or 0-3, or '!1' for all but 1, or all",
    )
    parser.add_argument(
        "destination",
        nargs="?",
        metavar="TO",
        help="nodes to fill: as many as FROM, and each FROM node has its own; "
        "else pages are spread over them",
    )
    _add_selection(parser)
    _add_pace(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        dest="move_all",
        help="also move pages that other processes map (needs CAP_SYS_NICE)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only count what lies on the FROM nodes"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON, that of an error too"
    )
    parser.add_argument(
        "--progress",
        choices=KINDS,
        help="on stderr: a bar where that is a terminal, lines of JSON, or none (default: bar; "
        "none with --json)",
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tree",
        type=int,
        action="append",
        default=[],
        metavar="PID",
        help="this process and all below it, new ones included; repeatable",
    )
    parser.add_argument(
        "--cgroup",
        action="append",
        default=[],
        metavar="DIR",
        help="all processes of this cgroup and those below it, new ones included; a directory, or "
        "a name below /sys/fs/cgroup; repeatable",
    )
    parser.add_argument(
        "--to-tier",
        choices=TIERS,
        help="instead of FROM and TO: from all nodes of other memory tiers to those of the fastest "
        "or slowest",
    )


def _add_pace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help=f"callers of move_pages(2), each with its own ranges (default: the CPUs, at most "
        f"{planning.MOST_CALLERS}; {planning.HELPED_CALLERS} where the kernel itself lets several "
        "CPUs move pages)",
    )
    parser.add_argument(
        "--rate",
        type=_positive,
        metavar="MB/S",
        help="move at most so many 10^6 bytes a second, of all processes together",
    )
    parser.add_argument(
        "--max-stall",
        type=_positive,
        metavar="MS",
        help="move so little in one call that it takes no longer: a process that touches a page "
        "waits as long. One folio, such as a huge page, is always moved at once",
    )
    parser.add_argument(
        "--watch",
        type=_positive,
        metavar="SECONDS",
        help="move again what has come to the FROM nodes, until there is nothing to move or so "
        "many seconds have passed",
    )


def _pid(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{text} is not the number of a process")
    return int(text)


def _select(args: argparse.Namespace, pids: list[str]) -> Selection:
    """Find the processes; raises PagehaulError where there is none."""
    if not (pids or args.tree or args.cgroup):
        raise UsageError("no process is named: give PIDs, --tree or --cgroup")
    trees = [_pid(str(pid)) for pid in args.tree]
    groups = [find_cgroup(name) for name in args.cgroup]
    selection = Selection([_pid(text) for text in pids], trees, groups)
    if not selection.find():
        if selection.missing:
            raise NoProcessError(f"there is no process {selection.missing[0]}")
        raise NoProcessError("there is no process in the cgroup or tree")
    return selection


def _prepare(args: argparse.Namespace) -> tuple[Request, Selection]:
    """Check the command line against the machine; raises PagehaulError."""
    words = list(args.words)
    nodes: list[str] = []
    if args.to_tier is None:
        words, nodes = words[:-2], words[-2:]
        if len(nodes) < 2:
            raise UsageError("say from which nodes to which: FROM and TO, or --to-tier")
    if args.threads is not None and args.threads < 1:
        raise UsageError("--threads needs at least 1")
    selection = _select(args, words)
    plan = planning.make_plan(*nodes) if nodes else planning.tier_plan(args.to_tier)
    threads = args.threads or planning.default_threads(planning.kernel_helps(args.move_all))
    return Request(plan, args.move_all, threads, planning.kernel_shares()), selection


def _shown(args: argparse.Namespace) -> Progress:
    quiet = args.json or args.dry_run or not sys.stderr.isatty()
    kind = args.progress or ("none" if quiet else "bar")
    if kind == "bar":
        # Here, because it takes longer to start than all else but numpy.
        from pagehaul.move.bar import Bar

        return Bar()
    return JsonLines() if kind == "json" else Progress()


def _work(args: argparse.Namespace) -> Report:
    """Do what the command line says; raises PagehaulError only before there is anything to do."""
    request, selection = _prepare(args)
    pace = Pace(
        request.plan.grain,
        rate=args.rate and args.rate * 1e6,
        max_stall=args.max_stall and args.max_stall / 1e3,
    )
    with SignalStop() as stop, _shown(args) as shown:
        work = Work(request, selection, pace, shown)
        if args.dry_run:
            work.count(stop)
        else:
            work.run(stop, args.watch)
        return work.report


def run(args: argparse.Namespace) -> int:
    """Run `move`; raises PagehaulError, returns the exit status that --help documents."""
    try:
        report = _work(args)
    except PagehaulError as exc:
        if args.json:
            print_error(exc.status, str(exc))
        raise
    if args.json:
        print(report.count_json() if args.dry_run else report.to_json())
    elif report.begun:
        print(report.count_text() if args.dry_run else report.to_text())
    if not report.stop_status and report.failure is not None:
        raise report.failure
    return report.status if not args.dry_run else report.stop_status
