# SPDX-License-Identifier: GPL-2.0-only
"""What the user sees while long work runs: one line a step, its time, and where its log is."""

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from pagehaul.errors import PagehaulError

# Progress goes to stderr, so that stdout carries results only and can be redirected.
console = Console(stderr=True, highlight=False)

# Seconds between two progress lines where there is no terminal to redraw, as in a CI log.
_HEARTBEAT_S = 30.0

# Lines of a failed command's output that its error message repeats.
_TAIL_LINES = 12

# Steps may nest (a benchmark builds a kernel), or run at once in threads; rich draws one live
# display at a time, so that the steps share it, one row each, until the last of them ends.
_live: Progress | None = None
_live_steps = 0
_live_lock = threading.Lock()


class Step:
    """A piece of work in progress; `detail()` says how far it is."""

    def __init__(self, title: str, progress: Progress | None, task: TaskID | None) -> None:
        self.title = title
        self._progress = progress
        self._task = task
        self._started = time.monotonic()
        self._last_line = self._started

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started

    def detail(self, text: str) -> None:
        """Show `text` beside the title; where there is no terminal, at most every 30 seconds."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, detail=escape(text))
            return
        now = time.monotonic()
        if now - self._last_line >= _HEARTBEAT_S:
            self._last_line = now
            console.print(f"  {escape(self.title)}: {escape(text)}, {self.seconds:.0f} s")


@contextmanager
def step(title: str, log: Path | None = None) -> Iterator[Step]:
    """Show `title` with the elapsed time while the block runs, and its total time at the end."""
    progress: Progress | None = None
    task: TaskID | None = None
    if console.is_terminal:
        progress = _join_display()
        task = progress.add_task(escape(title), total=None, detail="")
    else:
        console.print(f"{escape(title)} ...")
    current = Step(title, progress, task)
    ok = False
    try:
        yield current
        ok = True
    finally:
        if progress is not None and task is not None:
            progress.remove_task(task)
            _leave_display(progress)
        mark = "[green]done[/]" if ok else "[red]failed[/]"
        where = f" [dim](log: {escape(str(log))})[/]" if log is not None and not ok else ""
        console.print(f"{mark} {escape(title)} [dim]{current.seconds:.1f} s[/]{where}")


def _join_display() -> Progress:
    global _live, _live_steps
    with _live_lock:
        if _live is None:
            _live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TextColumn("[dim]{task.fields[detail]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            _live.start()
        _live_steps += 1
        return _live


def _leave_display(progress: Progress) -> None:
    global _live, _live_steps
    with _live_lock:
        _live_steps -= 1
        if not _live_steps:
            progress.stop()
            _live = None


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill `process`, started in a session of its own, with everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@contextmanager
def ending_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have `process`, started in a session of its own, killed if this one is: nothing else is left.

    A shell reads from a pipe that only this process can write to, and never does.
    """
    with subprocess.Popen(
        ["sh", "-c", f"read -r _; kill -s KILL -- -{process.pid}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as watcher:
        try:
            yield
        finally:
            watcher.kill()


@dataclass(frozen=True)
class Command:
    """Words that are run in a directory, with `env` added to the environment."""

    words: Sequence[str | Path]
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def run_logged(
    command: Command | Sequence[str | Path],
    log: Path,
    *,
    title: str,
    timeout: float | None = None,
    on_line: Callable[[str, Step], None] | None = None,
) -> None:
    """Run a command, append its output to `log`, and show `title` while it runs.

    `timeout` is in seconds; `on_line` gets every line of output and may call the step's `detail()`.
    Raises PagehaulError with the last lines of the output when
    the command cannot be started, fails or takes too long. Nothing of it is left running.
    """
    if not isinstance(command, Command):
        command = Command(command)
    name = command.words[0]
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    log.parent.mkdir(parents=True, exist_ok=True)
    with step(title, log) as current, log.open("a", encoding="utf-8") as out:
        out.write(f"$ {' '.join(str(word) for word in command.words)}\n")
        out.flush()
        try:
            process = subprocess.Popen(
                [str(word) for word in command.words],
                cwd=command.cwd,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise PagehaulError(f"{title}: cannot run {name}: {error.strerror}") from error
        timed_out = threading.Event()

        def expire() -> None:
            timed_out.set()
            kill_group(process)

        timer = threading.Timer(timeout, expire) if timeout is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            assert process.stdout is not None
            for raw in process.stdout:
                text = raw.decode(errors="replace").rstrip("\n")
                out.write(text + "\n")
                tail.append(text)
                if on_line is not None:
                    on_line(text, current)
            returncode = process.wait()
        finally:
            if timer is not None:
                timer.cancel()
            kill_group(process)
        if timed_out.is_set():
            raise _failure(f"{title}: not finished after {timeout:.0f} s", tail, log)
        if returncode != 0:
            raise _failure(f"{title}: {name} failed with exit code {returncode}", tail, log)


def _failure(what: str, tail: deque[str], log: Path) -> PagehaulError:
    lines = "".join(f"\n  | {line}" for line in tail)
    return PagehaulError(f"{what}; the whole log is in {log}{lines}")
