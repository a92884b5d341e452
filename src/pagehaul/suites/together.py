# SPDX-License-Identifier: GPL-2.0-only
"""Guests at once: as many as this machine has room for."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from pagehaul.guest import kvm
from pagehaul.guest.machine import Guest
from pagehaul.host import facts, tools
from pagehaul.kernel.built import Kernel
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import memory_mb

# MiB that the host keeps for itself.
HOST_RESERVE_MB = 2048

_T = TypeVar("_T")


def all_at_once(
    works: Sequence[Callable[[Event], list[Outcome]]],
    guest: Guest,
    ours: Kernel,
    most: int | None = None,
) -> list[Outcome]:
    """Run works that have such a guest each, as many at once as this host has room for."""
    # Before several of them ask for it at the same time.
    tools.need_for("guest")
    kvm.kvm_works(ours.image)
    by_memory = (facts.memory_available_mb() - HOST_RESERVE_MB) // memory_mb(guest, ours.variant)
    room = max(1, min(most or os.cpu_count() or 1, by_memory))
    return [outcome for outcomes in at_once(works, room) for outcome in outcomes]


def at_once(works: Sequence[Callable[[Event], _T]], limit: int) -> list[_T]:
    """Run `works` in threads, at most `limit` at a time, and return what they return.

    Each gets the event that tells it to stop: what ends one of them stops the others.
    """
    stop = Event()
    with ThreadPoolExecutor(limit) as pool:
        futures = [pool.submit(work, stop) for work in works]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise
