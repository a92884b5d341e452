# SPDX-License-Identifier: GPL-2.0-only
"""Works at once, each in a thread of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

from pagehaul.guest import kvm
from pagehaul.host import facts
from pagehaul.kernel.built import Kernel
from pagehaul.suites.outcomes import Outcome

_T = TypeVar("_T")


def all_at_once(works: Sequence[Callable[[Event], list[Outcome]]], ours: Kernel) -> list[Outcome]:
    """Run works that have a guest each, as many at once as there is room for."""
    # Before several of them ask for it at the same time.
    kvm.kvm_works(ours.image)
    return [outcome for outcomes in at_once(works, facts.cpus()) for outcome in outcomes]


def at_once(works: Sequence[Callable[[Event], _T]], limit: int) -> list[_T]:
    """Run `works` in threads, at most `limit` at a time, and return what they return.

    Each gets the event that tells it to stop: what ends one of them stops the others.
    """
    stop = Event()
    with ThreadPoolExecutor(limit) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            # In the order in which they end: the one that fails need not be the first.
            for future in as_completed(futures):
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise
