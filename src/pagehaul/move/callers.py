# SPDX-License-Identifier: GPL-2.0-only
"""Several callers of move_pages(2) at the same time, each with windows of its own."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from pagehaul.move.batch import Batch
from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.outcome import Outcome
from pagehaul.move.pace import Pace
from pagehaul.move.relocate import Relocator
from pagehaul.move.stop import Stop
from pagehaul.move.windows import Window

# Seconds before pages that were busy are tried again, once all others have moved: I/O and reclaim
# hold a page for a moment only.
_BUSY_PAUSES = (0.02, 0.1, 0.5)


# Of malloc.h. The library gives memory back to the kernel that is freed in larger pieces than this,
# and the next array of a window would fault in each of its pages again.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 << 20

# Seconds that Python lets one thread run before another one: windows need it for less.
_TURN_S = 0.0002


def prepare() -> None:
    """Set up this process for threads that each need arrays for a short time, again and again."""
    sys.setswitchinterval(_TURN_S)
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for which in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            mallopt(which, _KEPT_BYTES)


def relocate(
    relocator: Relocator,
    work: Iterator[Window],
    threads: int,
    report: Callable[[Outcome], None],
    pace: Pace | None = None,
) -> None:
    """Move all windows of `work` by `threads` callers, as fast as `pace` lets them.

    `report` gets each window's outcome. Once the relocator's stop is set, the windows in progress
    end and are reported; no others begin. Hugetlb pages of files are moved by one caller at a time:
    the kernel unmaps them under a lock of the file, and leaves what another one has locked. Raises
    OSError of the first window that failed, once the windows in progress have ended.
    """

    def paced(move: Callable[[], Outcome]) -> Callable[[], Outcome]:
        return move if pace is None else partial(pace.run, move, relocator.stop)

    of_files = threading.Lock()

    def move(window: Window) -> Outcome:
        with of_files if window.of_file else contextlib.nullcontext():
            return relocator.move_window(window)

    def move_again(batch: Batch) -> Outcome:
        # Nobody knows any more whether they are of a file: they may be busy because of that.
        with of_files if batch.page_size > BASE_PAGE else contextlib.nullcontext():
            return relocator.move_again(batch)

    def first(window: Window) -> Callable[[], Outcome]:
        return paced(partial(move, window))

    def again(batch: Batch) -> Callable[[], Outcome]:
        return paced(partial(move_again, batch))

    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="move") as pool:
            _run_all(pool, relocator.stop, map(first, work), 2 * threads, report)
            for pause in _BUSY_PAUSES:
                if not relocator.busy or relocator.stop.is_set():
                    break
                relocator.pause(pause)
                _run_all(pool, relocator.stop, map(again, relocator.busy), 2 * threads, report)
    finally:
        report(relocator.give_up())


def _run_all(
    pool: ThreadPoolExecutor,
    stop: Stop,
    work: Iterator[Callable[[], Outcome]],
    limit: int,
    report: Callable[[Outcome], None],
) -> None:
    """Run all of `work`, at most `limit` at once; raises the first failure when all have ended."""
    running: set[Future[Outcome]] = set()
    failure: BaseException | None = None
    more = True
    while running or more:
        while more and len(running) < limit:
            move = None
            try:
                if failure is None and not stop.is_set():
                    move = next(work, None)
            except Exception as exc:
                # The process may have ended. What is on the way is still reported.
                failure = exc
            if move is None:
                more = False
            else:
                running.add(pool.submit(move))
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            if future.exception() is None:
                report(future.result())
            elif failure is None:
                failure = future.exception()
    if failure is not None:
        raise failure
