# SPDX-License-Identifier: GPL-2.0-only
"""Several callers of move_pages(2) at the same time, each with windows of its own."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from pagehaul.move.outcome import Outcome
from pagehaul.move.relocate import Relocator
from pagehaul.move.windows import Window

# Seconds before pages that were busy are tried again, once all others have moved: I/O and reclaim
# hold a page for a moment only.
_BUSY_PAUSES = (0.02, 0.1, 0.5)


def relocate(
    relocator: Relocator,
    work: Iterator[Window],
    threads: int,
    report: Callable[[Outcome], None],
) -> None:
    """Move all windows of `work` by `threads` callers; `report` gets each window's outcome.

    Raises OSError of the first window that failed, once the windows in progress have ended.
    """
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="move") as pool:
            first = (partial(relocator.move_window, window) for window in work)
            _run_all(pool, relocator.stop, first, 2 * threads, report)
            for pause in _BUSY_PAUSES:
                if not relocator.busy:
                    break
                relocator.pause(pause)
                again = (partial(relocator.move_again, batch) for batch in relocator.busy)
                _run_all(pool, relocator.stop, again, 2 * threads, report)
    finally:
        report(relocator.give_up())


def _run_all(
    pool: ThreadPoolExecutor,
    stop: threading.Event,
    work: Iterator[Callable[[], Outcome]],
    limit: int,
    report: Callable[[Outcome], None],
) -> None:
    """Run all of `work`, at most `limit` at once; raises the first failure when all have ended."""
    running: set[Future[Outcome]] = set()
    failure: BaseException | None = None
    try:
        more = True
        while running or more:
            while more and len(running) < limit:
                move = next(work, None)
                if move is None or failure is not None:
                    more = False
                else:
                    running.add(pool.submit(move))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if future.exception() is None:
                    report(future.result())
                elif failure is None:
                    failure = future.exception()
    except KeyboardInterrupt:
        stop.set()
        for future in running:
            if not future.cancel() and future.exception() is None:
                report(future.result())
        raise
    if failure is not None:
        raise failure
