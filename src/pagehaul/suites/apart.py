# SPDX-License-Identifier: GPL-2.0-only
"""Suites in processes of their own, several at once, after the kernels that they need."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from rich.markup import escape

from pagehaul import ui
from pagehaul.host import facts
from pagehaul.paths import REPO, cache_dir, log_dir
from pagehaul.suites.outcomes import Outcome, failed
from pagehaul.suites.running import read_record, sum_up, tell
from pagehaul.suites.together import at_once

# This program.
_COMMAND = (sys.executable, "-m", "pagehaul")

# Builds beside guests leave the CPUs to these.
_NICE = ("nice", "-n", "10")

# Seconds that a process may take to end its guests when it has to.
_ENDS_S = 30.0

# Lines of a process that ended badly which the reason of the failure repeats.
_TAIL_LINES = 15

# The table of where the time went, beside the logs.
TABLE = "test-times.txt"


class Stage(IntEnum):
    """When a piece runs: builds in a row, beside what boots no guests; then what does."""

    BUILD = 0
    BESIDE = 1
    GUESTS = 2
    ALONE = 3


@dataclass(frozen=True)
class Piece:
    """A part of a run: the words by which this program does it, and when.

    suite is the name of the suite that it is, "" for the build of a kernel. A piece that is later
    belongs to a base whose kernels are built while the guests of another one run, which do not need
    all CPUs all the time.
    """

    name: str
    words: tuple[str, ...]
    stage: Stage
    suite: str = ""
    later: bool = False


@dataclass(frozen=True)
class Done:
    """What a piece gave: its outcomes, its seconds, and what else it tells of them."""

    outcomes: list[Outcome]
    seconds: float = 0.0
    cpu_s: float = 0.0
    spent: Mapping[str, float] = field(default_factory=dict)


def run_pieces(pieces: Sequence[Piece], minutes: float | None = None) -> int:
    """Run pieces, and sum up as run_suites() does; a piece that has not begun in time has failed.

    minutes are counted from now on. Prints a table of where the time went, and keeps it.
    """
    started = time.monotonic()
    limit = None if minutes is None else started + 60 * minutes
    done: dict[str, Done] = {}
    with TemporaryDirectory(prefix="suites-", dir=cache_dir()) as directory:

        def run(piece: Piece, stop: Event) -> None:
            if limit is not None and time.monotonic() >= limit:
                why = f"it has not begun {minutes:g} minutes after the start of all"
                done[piece.name] = Done([failed("the suite", why)])
            elif not stop.is_set():
                done[piece.name] = _run(piece, Path(directory), stop)

        def in_a_row(stage: Stage, stop: Event, *, later: bool = False) -> None:
            for piece in pieces:
                if piece.stage is stage and piece.later is later:
                    run(piece, stop)

        built = Event()

        def rest(stop: Event) -> None:
            try:
                in_a_row(Stage.BUILD, stop, later=True)
            finally:
                built.set()
            in_a_row(Stage.BESIDE, stop, later=True)

        def run_guests(piece: Piece, stop: Event) -> None:
            if piece.later:
                built.wait()
            run(piece, stop)

        at_once([partial(in_a_row, Stage.BUILD), partial(in_a_row, Stage.BESIDE)], 2)
        # One more than can have guests at once: another one may be compiling its programs. Those
        # that have to wait for their kernel come last.
        guests = [piece for piece in pieces if piece.stage is Stage.GUESTS]
        guests.sort(key=lambda piece: piece.later)
        works: list[Callable[[Event], None]] = [rest]
        works += [partial(run_guests, piece) for piece in guests]
        at_once(works, facts.cpus() + 2)
        for later in (False, True):
            at_once([partial(in_a_row, Stage.ALONE, later=later)], 1)
    in_order = {piece.name: done[piece.name] for piece in pieces}
    text = table(in_order, time.monotonic() - started)
    (log_dir() / TABLE).write_text(text, encoding="utf-8")
    ui.console.print(escape(text), soft_wrap=True)
    return sum_up({name: each.outcomes for name, each in in_order.items()})


def table(done: Mapping[str, Done], seconds: float) -> str:
    """Return where the time went, a line a piece; `seconds` are those of all of them together."""
    wide = max((len(name) for name in done), default=0)
    lines = [f"{'':{wide}}  {'wall s':>7} {'CPU s':>7} {'guests':>7} {'boots s':>7} {'run s':>7}"]
    for name, each in done.items():
        known = [f"{each.seconds:7.0f}", f"{each.cpu_s:7.0f}"]
        known += [f"{each.spent.get(what, 0):7.0f}" for what in ("guests", "boot_s", "run_s")]
        lines.append(f"{name:{wide}}  {' '.join(known)}")
    cpu = sum(each.cpu_s for each in done.values())
    cpus = facts.cpus()
    share = cpu / (cpus * seconds) if seconds else 0.0
    lines.append(f"{'all':{wide}}  {seconds:7.0f} {cpu:7.0f}   {share:.0%} of {cpus} CPUs")
    return "\n".join(lines) + "\n"


def _run(piece: Piece, directory: Path, stop: Event) -> Done:
    """Run a piece in a process of its own."""
    name = piece.name.replace("/", "-").replace(" ", "-")
    log, record = log_dir() / f"suite-{name}.log", directory / f"{name}.json"
    words = [*piece.words, *(["--record", str(record)] if piece.suite else [])]
    started = time.monotonic()
    title = f"suite {piece.name}" if piece.suite else piece.name
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with ui.step(title, log) as step:

        def on_line(line: str) -> None:
            if line.strip():
                tail.append(line)
                step.detail(line.strip())

        nice = _NICE if piece.later and not piece.suite else ()
        status, cpu_s = _process(words, log, on_line, stop, nice)
    seconds = time.monotonic() - started
    why = "\n".join([f"ended with {status}, see {log}", *tail])
    outcomes: list[Outcome] = []
    spent: dict[str, float] = {}
    if piece.suite:
        try:
            outcomes, spent = read_record(record, piece.suite)
        except (OSError, ValueError, KeyError, TypeError):
            outcomes = [failed("the suite", why)]
        tell(piece.name, outcomes, seconds)
    elif status:
        outcomes = [failed("the build", why)]
    return Done(outcomes, seconds, cpu_s, spent)


def _process(
    words: Sequence[str],
    log: Path,
    on_line: Callable[[str], None],
    stop: Event,
    prefix: Sequence[str] = (),
) -> tuple[int, float]:
    """Run this program until another thread sets `stop`; return its status and its CPU seconds.

    prefix are the words of a command that runs it. CPU seconds are those of all that it has
    started, and waited for, as well.
    """
    with log.open("wb") as out, selectors.DefaultSelector() as selector:
        process = subprocess.Popen(
            [*prefix, *_COMMAND, *words],
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        rest, deadline = b"", float("inf")
        try:
            while time.monotonic() < deadline:
                if stop.is_set() and deadline == float("inf"):
                    # Its guests have sessions of their own: it ends them itself.
                    process.send_signal(signal.SIGTERM)
                    deadline = time.monotonic() + _ENDS_S
                if not selector.select(0.5):
                    continue
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    break
                out.write(data)
                out.flush()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    on_line(line.decode(errors="replace"))
        finally:
            process.stdout.close()
            if time.monotonic() >= deadline:
                process.kill()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime
