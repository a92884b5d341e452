# SPDX-License-Identifier: GPL-2.0-only
"""How much a call is given under --max-stall, on a clock that only calls move on."""

import time

import numpy as np
import pytest

from pagehaul.move.addrspace import Kind
from pagehaul.move.calls import Calls
from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.movepages import Addresses, Status
from pagehaul.move.relocate import Relocator
from pagehaul.move.windows import Plan, Window

MB = 1 << 20
THP = 2 * MB
START = 0x7F0000000000
STALL = 0.002

# Seconds that a call takes by itself, and for each base page and each huge page.
CALL_S, PAGE_S, HUGE_S = 50e-6, 2e-6, 300e-6


class Kernel:
    """move_pages(2) on pages that each are a folio; `slower` is how much slower it has become."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folio: int = BASE_PAGE) -> None:
        self.now = 100.0
        self.slower = 1.0
        self.folio = folio
        self.counts: list[int] = []
        self.seconds: list[float] = []
        self.pinned: set[int] = set()
        self._node: dict[int, int] = {}
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def query(self, addresses: Addresses) -> Status:
        heads = (address - address % self.folio for address in addresses.tolist())
        return np.array([self._node.get(head, 0) for head in heads], np.int32)

    def move(self, addresses: Addresses, node: int) -> tuple[int, Status]:
        each = PAGE_S if self.folio == BASE_PAGE else HUGE_S * self.folio / THP
        took = (CALL_S + each * len(addresses)) * self.slower
        self.now += took
        self.counts.append(len(addresses))
        self.seconds.append(took)
        found = addresses.tolist()
        stay = [address for address in found if address in self.pinned]
        for address in found:
            if address not in self.pinned:
                self._node[address - address % self.folio] = node
        status = np.full(len(found), node, np.int32)
        return len(stay), status


def window(number: int, size: int, kind: Kind, page_size: int) -> Window:
    start = START + number * size
    return Window(kind, page_size, ((start, start + size),))


def move(kernel: Kernel, calls: Calls, number: int, size: int = 64 * MB) -> int:
    """Move a window of the kernel's folios; returns the bytes moved."""
    huge = kernel.folio >= THP
    kind, page_size = (Kind.THP, THP) if huge else (Kind.BASE, BASE_PAGE)
    relocator = Relocator(kernel, Plan((0,), (1,), THP), calls=calls)
    return relocator.move_window(window(number, size, kind, page_size)).moved


@pytest.mark.parametrize("folio", [BASE_PAGE, 64 << 10, MB, THP])
def test_no_call_is_too_long_and_all_moves(folio: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, folio)
    calls = Calls(STALL)
    assert sum(move(kernel, calls, number, 16 * MB) for number in range(3)) == 48 * MB
    assert max(kernel.seconds) <= STALL
    assert calls.longest == pytest.approx(max(kernel.seconds))
    assert max(kernel.seconds) > STALL / 5, "but not far from it"


def test_without_a_limit_a_window_of_huge_pages_is_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(monkeypatch, THP)
    assert move(kernel, Calls(), 0) == 64 * MB
    assert kernel.counts == [32]


def test_base_pages_move_in_calls_smaller_than_a_huge_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(monkeypatch)
    kernel.slower = 5.0
    assert move(kernel, Calls(STALL), 0, 8 * MB) == 8 * MB
    assert max(kernel.counts) < 512
    assert max(kernel.seconds) <= STALL


def test_after_a_machine_becomes_slower_one_call_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(monkeypatch, THP)
    calls = Calls(STALL)
    move(kernel, calls, 0)
    before = len(kernel.seconds)
    kernel.slower = 3.0
    move(kernel, calls, 1)
    slow = kernel.seconds[before:]
    assert slow[0] > STALL >= max(slow[1:])


def test_one_folio_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, THP)
    kernel.slower = 100.0
    assert move(kernel, Calls(STALL), 0, 8 * MB) == 8 * MB
    assert kernel.counts == [1] * 4


def test_sizes_are_learnt_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Huge pages take less time a byte: what they may have would be too much for small ones."""
    kernel = Kernel(monkeypatch, THP)
    calls = Calls(STALL)
    move(kernel, calls, 0, 128 * MB)
    before = len(kernel.seconds)
    kernel.folio = BASE_PAGE
    move(kernel, calls, 5)
    assert max(kernel.seconds[before:]) <= STALL


def test_calls_that_may_have_moved_less_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    calls = Calls(STALL)
    first = calls.most(BASE_PAGE)
    assert first == 64
    for _ in range(5):
        calls.learn(BASE_PAGE, first, now, sure=False)
    assert calls.most(BASE_PAGE) == first
    calls.learn(BASE_PAGE, 1, now, sure=True)
    assert calls.most(BASE_PAGE) == first, "nor does one that was given little"
    calls.learn(BASE_PAGE, first, now, sure=True)
    assert calls.most(BASE_PAGE) == 2 * first


def test_pages_that_stay_end_only_the_list_of_their_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel(monkeypatch)
    kernel.pinned = {START + 100 * BASE_PAGE}
    assert move(kernel, Calls(STALL), 0, 8 * MB) == 8 * MB - BASE_PAGE
