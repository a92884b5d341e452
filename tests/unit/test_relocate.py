# SPDX-License-Identifier: GPL-2.0-only
"""The order in which pages are moved, against a model of move_pages(2) as the kernel does it."""

import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from pagehaul.move.addrspace import Kind, Process, Regions
from pagehaul.move.batch import Batch, Busy
from pagehaul.move.callers import relocate
from pagehaul.move.calls import Calls
from pagehaul.move.mappings import BASE_PAGE, Mapping
from pagehaul.move.movepages import UNWRITTEN, Addresses, Status
from pagehaul.move.outcome import Outcome, describe
from pagehaul.move.relocate import Relocator
from pagehaul.move.stop import Stop
from pagehaul.move.windows import STAY, Plan, Window, window_bytes, windows

MB = 1 << 20
THP = 2 * MB
START = 0x7F0000000000  # aligned to any folio


@dataclass
class Folio:
    """Some pages that move together."""

    pages: list[int]
    node: int
    pinned: bool = False
    shared: bool = False
    homeless: bool = False  # no free huge page for it anywhere, and it cannot be split
    asked: int = 0  # times an address of it was given to move()


@dataclass
class Model:
    """do_pages_move() and migrate_pages() of Linux 6.12, on a dictionary of pages."""

    room: dict[int, int] = field(default_factory=dict)  # bytes; absent: any amount
    splits: bool = True  # a large folio without a place is split, as by MPOL_MF_MOVE
    calls: int = 0
    lists: int = 0
    ends_after: int | None = None  # calls of move() until the process ends

    def __post_init__(self) -> None:
        self.folio: dict[int, Folio] = {}
        self.page_size = BASE_PAGE
        self._lock = threading.Lock()

    def map(self, start: int, size: int, **how: bool) -> Folio:
        """One folio of `size` bytes on node 0."""
        folio = Folio(list(range(start, start + size, self.page_size)), 0, **how)
        self.folio.update(dict.fromkeys(folio.pages, folio))
        return folio

    def query(self, addresses: Addresses) -> Status:
        with self._lock:
            where = (self.folio.get(address) for address in addresses.tolist())
            return np.array([f.node if f else -errno.ENOENT for f in where], np.int32)

    def _take(self, folio: Folio, node: int) -> bool:
        size = len(folio.pages) * self.page_size
        if folio.homeless or self.room.get(node, size) < size:
            return False
        if node in self.room:
            self.room[node] -= size
        folio.node = node
        return True

    def _migrate(self, folios: list[Folio], node: int) -> int:
        self.lists += bool(folios)
        failed = 0
        for folio in folios:
            if folio.pinned:
                failed += 1
            elif not self._take(folio, node):
                if len(folio.pages) == 1 or not self.splits:
                    return -errno.ENOMEM
                pieces = [self.map(page, self.page_size) for page in folio.pages]
                # The number returned counts the pieces that stay, without an errno.
                failed += not all([self._take(piece, node) for piece in pieces])
        return failed

    def move(self, addresses: Addresses, node: int) -> tuple[int, Status]:
        with self._lock:
            self.calls += 1
            if self.ends_after is not None and self.calls > self.ends_after:
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            return self._move(addresses.tolist(), node)

    def _move(self, addresses: list[int], node: int) -> tuple[int, Status]:
        status = np.full(len(addresses), UNWRITTEN, np.int32)
        waiting: list[Folio] = []
        start = 0
        for i, address in enumerate(addresses):
            folio = self.folio.get(address)
            if folio:
                folio.asked += 1
            if folio is None:
                answer = -errno.ENOENT
            elif folio.node == node:
                answer = node
            elif folio.shared:
                answer = -errno.EACCES
            elif any(folio is other for other in waiting):
                answer = -errno.EBUSY
            else:
                if not waiting:
                    start = i
                waiting.append(folio)
                continue
            status[i] = answer
            if waiting:
                result = self._migrate(waiting, node)
                if result:
                    return (result + len(addresses) - i - 1 if result > 0 else result), status
                status[start:i] = node
                waiting = []
        if waiting:
            result = self._migrate(waiting, node)
            if result:
                return result, status
            status[start:] = node
        return 0, status


def plan(sources: tuple[int, ...] = (0,), destinations: tuple[int, ...] = (1,)) -> Plan:
    return Plan(sources, destinations, THP)


def window(size: int, kind: Kind = Kind.BASE, page_size: int = BASE_PAGE) -> Window:
    return Window(kind, page_size, ((START, START + size),))


def some_windows(count: int) -> list[Window]:
    """Windows of 4 MB, one after the other."""
    starts = [START + i * 4 * MB for i in range(count)]
    return [Window(Kind.BASE, BASE_PAGE, ((start, start + 4 * MB),)) for start in starts]


def move_all(model: Model, part: Window, calls: Calls | None = None) -> Outcome:
    """Move one window, and what was busy in it once only."""
    relocator = Relocator(model, plan(), calls=calls)
    outcome = relocator.move_window(part)
    outcome.add(relocator.give_up())
    return outcome


def fill(model: Model, size: int, folio_size: int, **how: bool) -> list[Folio]:
    return [model.map(at, folio_size, **how) for at in range(START, START + size, folio_size)]


@pytest.mark.parametrize("folio_size", [4096, 8192, 65536, MB, THP])
def test_every_folio_is_named_once(folio_size: int) -> None:
    model = Model()
    folios = fill(model, 8 * MB, folio_size)
    outcome = Relocator(model, plan()).move_window(window(8 * MB))
    assert outcome == Outcome(moved=8 * MB)
    assert {folio.asked for folio in folios} == {1}
    assert all(folio.node == 1 for folio in folios)
    # One list for the pages that probe, and one for each size below, at most.
    assert model.lists == model.calls <= 11


def test_base_pages_are_named_at_once_where_there_were_no_others() -> None:
    model = Model()
    folios = fill(model, 64 * MB, BASE_PAGE)
    relocator = Relocator(model, plan())
    total = Outcome()
    for each in some_windows(16):
        total.add(relocator.move_window(each))
    assert total == Outcome(moved=64 * MB)
    assert {folio.asked for folio in folios} == {1}
    # The first window has a page of each huge page first.
    assert model.calls == model.lists == 17


def test_base_pages_with_holes_are_named_at_once_too() -> None:
    model = Model()
    for number, at in enumerate(range(START, START + 64 * MB, BASE_PAGE)):
        # A hole, and a page that is there already, in each window.
        if number % 1000 != 7:
            model.map(at, BASE_PAGE).node = number % 1000 == 8
    there = sum(not folio.node for folio in model.folio.values())
    relocator = Relocator(model, plan())
    total = Outcome()
    for each in some_windows(16):
        total.add(relocator.move_window(each))
    assert total == Outcome(moved=there * BASE_PAGE)
    assert model.calls == 17


@pytest.mark.parametrize("pinned", [False, True])
def test_larger_folios_behind_base_pages(pinned: bool) -> None:
    model = Model()
    for at in range(START, START + 8 * MB, BASE_PAGE):
        model.map(at, BASE_PAGE)
    large = [model.map(at, 65536) for at in range(START + 8 * MB, START + 16 * MB, 65536)]
    large[3].pinned = pinned
    relocator = Relocator(model, plan())
    total = Outcome()
    for each in some_windows(4):
        total.add(relocator.move_window(each))
    total.add(relocator.give_up())
    left = Counter({errno.EBUSY: 65536} if pinned else {})
    assert total == Outcome(moved=16 * MB - left.total(), left=left)
    assert [folio.node for folio in large] == [0 if pinned and n == 3 else 1 for n in range(128)]
    # Only those of one window were named page by page.
    assert all(folio.asked <= 3 for folio in large[64:])


def test_pages_that_have_arrived_do_not_go_on() -> None:
    """Node 1 is a TO node and a FROM node: what comes there from node 0 stays."""
    model = Model()
    folios = fill(model, 8 * MB, BASE_PAGE)
    folios[1500].shared = True
    relocator = Relocator(model, plan((0, 1), (1, 2)))
    total = Outcome()
    for each in some_windows(2):
        total.add(relocator.move_window(each))
    total.add(relocator.give_up())
    assert total == Outcome(moved=8 * MB - BASE_PAGE, left=Counter({errno.EACCES: BASE_PAGE}))
    assert [folio.node for folio in folios] == [int(n != 1500) for n in range(2048)]


def test_a_full_node_is_not_tried_by_each_window() -> None:
    model = Model(room={1: 4 * MB})
    fill(model, 32 * MB, BASE_PAGE)
    relocator = Relocator(model, plan())
    total = Outcome()
    for each in some_windows(4):
        total.add(relocator.move_window(each))
    calls = model.calls
    for each in some_windows(8)[4:]:
        total.add(relocator.move_window(each))
    assert model.calls == calls, "it is known to be full"
    assert total == Outcome(moved=4 * MB, left=Counter({errno.ENOMEM: 28 * MB}))


def test_what_did_not_move_says_nothing_of_sizes() -> None:
    model = Model()
    pinned = fill(model, 4 * MB, BASE_PAGE, pinned=True)
    large = [model.map(at, 65536) for at in range(START + 4 * MB, START + 8 * MB, 65536)]
    relocator = Relocator(model, plan())
    for each in some_windows(2):
        relocator.move_window(each)
    assert not any(folio.node for folio in pinned)
    assert all(folio.node == 1 and folio.asked == 1 for folio in large)


def test_holes_have_not_gone_where_nobody_has_looked() -> None:
    model = Model()
    for at in range(START, START + 4 * MB, 4 * BASE_PAGE):
        model.map(at, BASE_PAGE)
    part = Window(Kind.BASE, BASE_PAGE, ((START, START + 4 * MB),), home=0)
    relocator = Relocator(model, Plan((0,), (1,), THP, complete=True))
    assert relocator.move_window(part) == Outcome(moved=MB)


def test_huge_pages_go_in_one_list() -> None:
    model = Model()
    folios = fill(model, 16 * MB, THP)
    outcome = Relocator(model, plan()).move_window(window(16 * MB, Kind.THP, THP))
    assert outcome == Outcome(moved=16 * MB)
    assert (model.calls, model.lists) == (1, 1)
    assert {folio.asked for folio in folios} == {1}


def test_hugetlb_pages() -> None:
    model = Model(room={1: 4 * THP}, splits=False)
    model.page_size = THP
    fill(model, 8 * THP, THP)
    outcome = Relocator(model, plan()).move_window(window(8 * THP, Kind.HUGETLB, THP))
    assert outcome == Outcome(moved=4 * THP, left=Counter({errno.ENOMEM: 4 * THP}))


def test_folio_that_is_not_aligned_in_the_address_space() -> None:
    model = Model()
    folios = [model.map(START + 4096 * (3 + 16 * i), 65536) for i in range(100)]
    size = 4096 * (3 + 1600)
    part = Window(Kind.BASE, BASE_PAGE, ((START + 4096 * 3, START + size),))
    assert Relocator(model, plan()).move_window(part) == Outcome(moved=100 * 65536)
    assert {folio.asked for folio in folios} == {1}


def test_pinned_pages_do_not_keep_the_others() -> None:
    """A list that fails ends the system call; what was behind it has to be moved all the same."""
    model = Model()
    folios = fill(model, 4 * MB, BASE_PAGE)
    for i in range(0, len(folios), 7):
        folios[i].pinned = True
    for i in range(3, len(folios), 11):
        folios[i].shared = not folios[i].pinned
    outcome = move_all(model, window(4 * MB))
    pinned = sum(folio.pinned for folio in folios)
    shared = sum(folio.shared for folio in folios)
    assert outcome.left == {errno.EBUSY: pinned * 4096, errno.EACCES: shared * 4096}
    assert outcome.moved == (len(folios) - pinned - shared) * 4096
    assert all((folio.node == 1) != (folio.pinned or folio.shared) for folio in folios)
    assert {folio.asked for folio in folios} == {1}, "what was tried is not tried again"


def test_last_list_that_fails_is_not_tried_again() -> None:
    model = Model()
    folios = fill(model, MB, BASE_PAGE)
    folios[50].shared = True
    folios[200].pinned = True
    outcome = move_all(model, window(MB))
    assert outcome.left == {errno.EBUSY: 4096, errno.EACCES: 4096}
    assert {folio.asked for folio in folios} == {1}


def test_pinned_and_shared_huge_pages() -> None:
    model = Model()
    folios = fill(model, 16 * MB, THP)
    folios[0].pinned = folios[5].pinned = True
    folios[2].shared = folios[7].shared = True
    outcome = move_all(model, window(16 * MB, Kind.THP, THP))
    assert outcome.moved == 4 * THP
    assert outcome.left == {errno.EBUSY: 2 * THP, errno.EACCES: 2 * THP}
    # A folio that cannot be moved is tried a second time, to tell it from a split one; not 512.
    assert max(folio.asked for folio in folios) <= 2


# In seconds; the second is so short that each call gets as little as possible.
@pytest.mark.parametrize("max_stall", [None, 1e-9])
def test_any_mixture_is_accounted_for_to_the_byte(max_stall: float | None) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        model = Model()
        at, folios = START, []
        while at < START + 12 * MB:
            size = chance.choice([4096] * 6 + [16384, 65536, 65536, 262144, THP])
            at = -(-at // size) * size + chance.choice([0, 0, 0, 4096 * chance.randrange(8)])
            pinned = chance.random() < 0.05
            shared = not pinned and chance.random() < 0.05
            folios.append(model.map(at, size, pinned=pinned, shared=shared))
            at += size
        outcome = move_all(model, window(at - START), Calls(max_stall))
        expected: Counter[str] = Counter()
        for folio in folios:
            what = "pinned" if folio.pinned else "shared" if folio.shared else "moved"
            expected[what] += len(folio.pages) * 4096
            assert (folio.node == 1) == (what == "moved")
        assert outcome.moved == expected["moved"]
        assert outcome.left.total() == expected["pinned"] + expected["shared"]
        assert outcome.left[errno.EACCES] == expected["shared"]
        assert outcome.gone == 0


def test_full_node() -> None:
    model = Model(room={1: MB})
    fill(model, 4 * MB, BASE_PAGE)
    relocator = Relocator(model, plan())
    outcome = relocator.move_window(window(4 * MB))
    assert outcome == Outcome(moved=MB, left=Counter({errno.ENOMEM: 3 * MB}))
    calls = model.calls
    assert calls < 10
    again = relocator.move_window(window(4 * MB))
    assert again.left == {errno.ENOMEM: 3 * MB}
    assert model.calls == calls, "a full node is not asked again"


def test_a_full_node_is_found_out_by_calls_for_one_folio_each() -> None:
    model = Model(room={1: 4 * THP}, splits=False)
    fill(model, 64 * THP, THP)
    outcome = move_all(model, window(64 * THP, Kind.HUGETLB, THP), Calls(1e-9))
    assert (outcome.moved, outcome.left) == (4 * THP, {errno.ENOMEM: 60 * THP})
    assert model.calls < 12


def test_huge_pages_that_are_split_for_want_of_room() -> None:
    model = Model(room={1: 3 * MB})
    fill(model, 4 * THP, THP)
    outcome = Relocator(model, plan()).move_window(window(4 * THP, Kind.THP, THP))
    assert outcome == Outcome(moved=3 * MB, left=Counter({errno.ENOMEM: 5 * MB}))


def test_huge_page_that_is_split_before_it_is_moved() -> None:
    """By the process itself, between being found and being named."""
    model = Model()
    fill(model, 4 * THP, THP)
    original = model._move

    def split_first(addresses: list[int], node: int) -> tuple[int, Status]:
        model._move = original  # type: ignore[method-assign]
        fill(model, THP, 65536)
        return original(addresses, node)

    model._move = split_first  # type: ignore[method-assign]
    outcome = Relocator(model, plan()).move_window(window(4 * THP, Kind.THP, THP))
    assert outcome == Outcome(moved=4 * THP)
    assert {folio.node for folio in model.folio.values()} == {1}


def test_piece_of_a_huge_page_that_cannot_be_moved() -> None:
    """The kernel splits the huge page, and one piece in its middle stays."""
    model = Model()
    fill(model, 2 * THP, THP)
    original = model._take

    def take(folio: Folio, node: int) -> bool:
        whole, pinned = len(folio.pages) > 1, folio.pages[0] == START + 100 * 4096
        return not whole and not pinned and original(folio, node)

    model._take = take  # type: ignore[method-assign]
    outcome = Relocator(model, plan()).move_window(window(2 * THP, Kind.THP, THP))
    assert outcome == Outcome(moved=2 * THP - 4096, left=Counter({errno.ENOMEM: 4096}))


def test_what_a_full_node_cannot_take_goes_to_the_others() -> None:
    model = Model(room={1: MB})
    folios = fill(model, 8 * MB, BASE_PAGE)
    outcome = Relocator(model, plan((0,), (1, 2, 3))).move_window(window(8 * MB))
    assert outcome == Outcome(moved=8 * MB)
    nodes = Counter(folio.node for folio in folios)
    assert nodes[1] == MB // 4096
    assert nodes[2] + nodes[3] == 7 * MB // 4096


@pytest.mark.parametrize("pages", [1, 3, 5])
def test_a_few_pages_without_room_go_to_the_others(pages: int) -> None:
    """Too few to tell that the node is full."""
    model = Model(room={2: 0})
    folios = [*fill(model, THP, BASE_PAGE)]
    folios += [model.map(START + THP + at * 4096, 4096) for at in range(pages)]
    size = THP + pages * 4096
    outcome = Relocator(model, plan((0,), (1, 2))).move_window(window(size))
    assert outcome == Outcome(moved=size)
    assert {folio.node for folio in folios} == {1}


def test_a_page_is_tried_on_each_node_once() -> None:
    model = Model(room={1: 0, 2: 0, 3: 0})
    folios = fill(model, 2 * BASE_PAGE, BASE_PAGE)
    outcome = Relocator(model, plan((0,), (1, 2, 3))).move_window(window(2 * BASE_PAGE))
    assert outcome.left == {errno.ENOMEM: 2 * BASE_PAGE}
    assert max(folio.asked for folio in folios) <= 3 * 2


def test_huge_pages_that_a_full_node_cannot_take_go_to_the_others() -> None:
    model = Model(room={2: 5 * MB}, splits=False)
    fill(model, 8 * THP, THP)
    destinations = (1, 2)
    outcome = Relocator(model, plan((0,), destinations)).move_window(window(8 * THP, Kind.THP, THP))
    assert outcome == Outcome(moved=8 * THP)


def test_huge_pages_that_were_split_for_want_of_room_go_whole_to_another_node() -> None:
    """The call that is refused on one node splits them; the next one names their first pages."""
    model = Model(room={2: 0})
    fill(model, 8 * THP, THP)
    original = model._move

    def refuse(addresses: list[int], node: int) -> tuple[int, Status]:
        if node == 1:
            return original(addresses, node)
        for address in addresses:
            for page in model.folio[address].pages:
                model.map(page, BASE_PAGE)
        return -errno.ENOMEM, np.full(len(addresses), UNWRITTEN, np.int32)

    model._move = refuse  # type: ignore[method-assign]
    window_of_huge_pages = window(8 * THP, Kind.THP, THP)
    outcome = Relocator(model, plan((0,), (1, 2))).move_window(window_of_huge_pages)
    assert {folio.node for folio in model.folio.values()} == {1}
    assert outcome == Outcome(moved=8 * THP)


def test_one_large_folio_without_a_place_does_not_make_a_node_full() -> None:
    model = Model(splits=False)
    for at in range(0, 3 * MB, 4096):
        model.map(START + at, 4096)
    model.map(START + 4 * MB, THP, homeless=True)
    outcome = move_all(model, window(6 * MB))
    assert (outcome.moved, outcome.left.total()) == (3 * MB, THP)


def test_pairs_keep_their_relative_position() -> None:
    """FROM 0,1 to TO 1,2: what comes to node 1 is not moved on to node 2."""
    model = Model()
    folios = fill(model, 4 * MB, 65536)
    for folio in folios[::2]:
        folio.node = 1
    before = [folio.node for folio in folios]
    outcome = Relocator(model, plan((0, 1), (1, 2))).move_window(window(4 * MB))
    assert outcome == Outcome(moved=4 * MB)
    assert [folio.node for folio in folios] == [node + 1 for node in before]


def test_spreading_keeps_huge_pages_whole_and_balances() -> None:
    model = Model()
    folios = fill(model, 24 * MB, 65536)
    Relocator(model, plan((0,), (1, 2, 3))).move_window(window(24 * MB))
    pieces = [{folio.node for folio in folios[i : i + 32]} for i in range(0, len(folios), 32)]
    assert all(len(nodes) == 1 for nodes in pieces)
    assert Counter(nodes.pop() for nodes in pieces) == {1: 4, 2: 4, 3: 4}


def test_pages_on_other_nodes_are_left_alone() -> None:
    model = Model()
    folios = fill(model, MB, BASE_PAGE)
    for folio in folios[:100]:
        folio.node = 2
    outcome = Relocator(model, plan()).move_window(window(MB))
    assert outcome == Outcome(moved=MB - 100 * 4096)
    assert all(folio.node == 2 and not folio.asked for folio in folios[:100])


@pytest.mark.parametrize("folio_size", [BASE_PAGE, 65536, THP])
def test_busy_pages_are_tried_again_after_all_others(folio_size: int) -> None:
    model = Model()
    folios = fill(model, 16 * MB, folio_size)
    busy, pinned = folios[1], folios[5]
    busy.pinned = pinned.pinned = True
    waited = []

    class Waiting(Relocator):
        def pause(self, seconds: float) -> None:
            """The user of the first of them lets it go after the second wait."""
            waited.append(seconds)
            moved = sum(folio.node == 1 for folio in folios)
            assert moved >= len(folios) - 2
            busy.pinned = len(waited) < 2

    kind, size = (Kind.THP, THP) if folio_size == THP else (Kind.BASE, BASE_PAGE)
    total = Outcome()
    relocate(Waiting(model, plan()), iter([window(16 * MB, kind, size)]), 2, total.add)
    left = Counter({errno.EBUSY: folio_size})
    assert total == Outcome(moved=16 * MB - folio_size, left=left)
    assert busy.node == 1 and pinned.node == 0


@pytest.mark.parametrize("ends", ["while it waits", "while it tries again"])
def test_busy_pages_are_counted_when_the_rest_fails(ends: str) -> None:
    model = Model()
    for folio in fill(model, 8 * MB, 65536)[3:40:9]:
        folio.pinned = True

    class Ending(Relocator):
        def pause(self, seconds: float) -> None:
            if ends == "while it waits":
                raise KeyboardInterrupt
            model.ends_after = model.calls

    total = Outcome()
    work = some_windows(2)
    with pytest.raises((KeyboardInterrupt, ProcessLookupError)):
        relocate(Ending(model, plan()), iter(work), 2, total.add)
    assert total == Outcome(moved=8 * MB - 5 * 65536, left=Counter({errno.EBUSY: 5 * 65536}))


def test_many_pinned_pages_are_not_tried_again() -> None:
    model = Model()
    folios = fill(model, 68 * MB, THP)
    for folio in folios[1:]:
        folio.pinned = True
    total = Outcome()
    relocate(Relocator(model, plan()), iter([window(68 * MB)]), 1, total.add)
    assert total == Outcome(moved=THP, left=Counter({errno.EBUSY: 66 * MB}))
    asked = max(folio.asked for folio in folios)
    total = Outcome()
    relocate(Relocator(model, plan()), iter([window(4 * MB)]), 1, total.add)
    assert total == Outcome(left=Counter({errno.EBUSY: THP}))
    assert folios[1].asked > 3 * asked, "few are"


def test_where_many_pages_were_busy_no_more_are_kept() -> None:
    def batch(pages: int) -> Batch:
        addresses, numbers = np.arange(pages, dtype=np.uint64), np.zeros(pages, np.int32)
        return Batch(addresses, numbers, numbers, THP, numbers)

    busy, none = Busy(), batch(0)
    assert busy.set_aside(none, batch(32)) == 0
    assert busy.set_aside(none, batch(1)) == 33 * THP
    assert busy.set_aside(none, batch(1)) == THP
    assert busy.batches == ()


@pytest.mark.parametrize(("complete", "home"), [(True, 0), (True, None), (False, 0)])
def test_nobody_asks_where_pages_are_if_it_is_known(complete: bool, home: int | None) -> None:
    """Only of the first pages of huge pages' room is it asked what came along."""

    class Counting(Model):
        asked_for = 0

        def query(self, addresses: Addresses) -> Status:
            self.asked_for += len(addresses)
            return super().query(addresses)

    model = Counting()
    fill(model, 32 * MB, BASE_PAGE)
    part = Window(Kind.BASE, BASE_PAGE, ((START, START + 32 * MB),), home)
    relocator = Relocator(model, Plan((0,), (1,), THP, complete))
    assert relocator.move_window(part) == Outcome(moved=32 * MB)
    assert all(folio.node == 1 for folio in model.folio.values())
    pages = 32 * MB // BASE_PAGE
    few = pages // 16
    known = complete and home is not None
    assert (model.asked_for < few) if known else (pages <= model.asked_for < pages + few)


def test_pages_that_stay_are_asked_for_even_where_all_were_on_one_node() -> None:
    model = Model()
    folios = fill(model, 8 * MB, BASE_PAGE)
    folios[5].pinned = folios[1500].shared = True
    part = Window(Kind.BASE, BASE_PAGE, ((START, START + 8 * MB),), 0)
    total = Outcome()
    relocate(Relocator(model, Plan((0,), (1,), THP, True)), iter([part]), 1, total.add)
    left = Counter({errno.EBUSY: BASE_PAGE, errno.EACCES: BASE_PAGE})
    assert total == Outcome(moved=8 * MB - 2 * BASE_PAGE, left=left)


def test_windows_know_the_only_node_of_their_mappings() -> None:
    mappings = [
        Mapping(START, START + 4 * MB, BASE_PAGE, {0: 4 * MB}),
        Mapping(START + 8 * MB, START + 12 * MB, BASE_PAGE, {0: 2 * MB, 1: 2 * MB}),
    ]

    class Whole:
        def present(self, mapping: Mapping) -> Iterator[Regions]:
            yield regions(Kind.BASE, BASE_PAGE, [(mapping.start, mapping.end)])

    found = list(windows(Whole(), mappings, lambda: 64 * MB, THP))  # type: ignore[arg-type]
    assert {part.home: part.parts[0][0] for part in found} == {0: START, None: START + 8 * MB}


def test_what_a_plan_moves() -> None:
    assert plan((0, 1), (1, 0)).moving == (0, 1)
    assert plan((0, 1), (0, 2)).moving == (1,)
    assert plan((0, 1, 2), (1,)).moving == (0, 2)
    assert plan((0,), (0, 1)).moving == ()
    assert plan((0, 1), (0, 1)).moving == ()
    home = np.array([0, 1, 2, 3, -errno.ENOENT], np.int32)
    addresses = np.arange(5, dtype=np.uint64) * np.uint64(4096)
    targets = plan((0, 1, 2), (1,)).targets(addresses, home, BASE_PAGE)
    assert targets.tolist() == [1, STAY, 1, STAY, STAY]


class FakeProcess(Process):
    """A process with given regions."""

    def __init__(self, regions: list[Regions]) -> None:
        self._regions = regions

    def present(self, mapping: Mapping) -> Iterator[Regions]:
        yield from self._regions


def regions(kind: Kind, page_size: int, parts: Iterable[tuple[int, int]]) -> Regions:
    bounds = np.array(list(parts), np.uint64)
    return Regions(kind, page_size, bounds[:, 0], bounds[:, 1])


def test_windows_cover_everything_once_and_cut_no_huge_page() -> None:
    scattered = [(START + 3 * 4096 + i * 3 * MB, START + i * 3 * MB + 2 * MB) for i in range(50)]
    long = [(START + 1000 * MB, START + 1100 * MB)]
    giant = [(START + 2048 * MB, START + 5120 * MB)]
    process = FakeProcess(
        [
            regions(Kind.BASE, BASE_PAGE, scattered),
            regions(Kind.THP, THP, long),
            regions(Kind.HUGETLB, 1024 * MB, giant),
        ]
    )
    cut = list(windows(process, [Mapping(0, 1, BASE_PAGE, {})], lambda: 8 * MB, THP))
    for kind, parts in ((Kind.BASE, scattered), (Kind.THP, long), (Kind.HUGETLB, giant)):
        mine = [each for each in cut if each.kind is kind]
        step = mine[0].page_size
        expected = [address for low, high in parts for address in range(low, high, step)]
        assert np.concatenate([each.addresses() for each in mine]).tolist() == expected
        for each in mine:
            size = sum(end - start for start, end in each.parts)
            assert size <= max(8 * MB + THP, step)
    ends = {end for low, end in scattered + long}
    for each in cut:
        assert all(end % THP == 0 or end in ends for _, end in each.parts)


def test_each_window_is_as_large_as_the_limit_is_then() -> None:
    process = FakeProcess([regions(Kind.BASE, BASE_PAGE, [(START, START + 104 * MB)])])
    limits = iter((8 * MB, 32 * MB, 64 * MB, 64 * MB))
    cut = windows(process, [Mapping(0, 1, BASE_PAGE, {})], lambda: next(limits), THP)
    assert [each.size for each in cut] == [8 * MB, 32 * MB, 64 * MB]


def test_a_window_has_so_many_parts_at_most() -> None:
    starts = range(START, START + 5000 * THP, THP)
    scattered = [(start, start + BASE_PAGE) for start in starts]
    process = FakeProcess([regions(Kind.BASE, BASE_PAGE, scattered)])
    cut = windows(process, [Mapping(0, 1, BASE_PAGE, {})], lambda: 64 * MB, THP)
    assert [len(each.parts) for each in cut] == [4096, 904]


def test_window_size() -> None:
    assert window_bytes(100 << 30, 8) == 256 * MB
    assert window_bytes(1, 8) == 8 * MB
    assert window_bytes(256 * MB, 2) == 32 * MB


@pytest.mark.parametrize("threads", [1, 4])
def test_many_windows_by_several_threads(threads: int) -> None:
    model = Model()
    folios = fill(model, 64 * MB, 65536)
    work = some_windows(16)
    total = Outcome()
    relocate(Relocator(model, plan()), iter(work), threads, total.add)
    assert total == Outcome(moved=64 * MB)
    assert {folio.asked for folio in folios} == {1}


@pytest.mark.parametrize("of_file", [False, True])
def test_hugetlb_pages_of_a_file_have_one_caller_at_a_time(of_file: bool) -> None:
    model = Model()
    model.page_size = THP
    fill(model, 64 * MB, THP)
    inside, most, move = 0, 0, model.move
    lock = threading.Lock()

    def watched(addresses: Addresses, node: int) -> tuple[int, Status]:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        with lock:
            inside -= 1
        return move(addresses, node)

    model.move = watched  # type: ignore[method-assign]
    work = [
        Window(Kind.HUGETLB, THP, ((at, at + 8 * MB),), of_file=of_file)
        for at in range(START, START + 64 * MB, 8 * MB)
    ]
    total = Outcome()
    relocate(Relocator(model, plan()), iter(work), 4, total.add)
    assert total == Outcome(moved=64 * MB)
    assert (most == 1) == of_file


def test_process_that_ends_in_the_middle() -> None:
    model = Model(ends_after=4)
    fill(model, 64 * MB, BASE_PAGE)
    work = some_windows(16)
    total = Outcome()
    with pytest.raises(ProcessLookupError):
        relocate(Relocator(model, plan()), iter(work), 1, total.add)
    # Two calls for the first window, in which nobody knows yet how large folios are.
    assert total == Outcome(moved=12 * MB), "windows before the end are reported"


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stop_from_outside_leaves_an_account(threads: int) -> None:
    model = Model()
    folios = fill(model, 256 * MB, 65536)
    stop = Stop()
    drawn = []
    total = Outcome()

    def work() -> Iterator[Window]:
        for each in some_windows(64):
            drawn.append(each)
            yield each

    def report(outcome: Outcome) -> None:
        total.add(outcome)
        stop.set()

    relocate(Relocator(model, plan(), stop), work(), threads, report)
    assert len(drawn) == 2 * threads, "no more are drawn than were waiting"
    assert 0 < total.moved == 65536 * sum(folio.node == 1 for folio in folios) < 256 * MB


def test_stopping() -> None:
    model = Model()
    fill(model, MB, BASE_PAGE)
    relocator = Relocator(model, plan())
    original = model._migrate

    def stop(folios: list[Folio], node: int) -> int:
        relocator.stop.set()
        return original(folios, node)

    model._migrate = stop  # type: ignore[method-assign]
    outcome = relocator.move_window(window(MB))
    assert outcome.moved > 0, "what the kernel has begun is moved, and counted"
    assert outcome.left == {errno.EINTR: MB - outcome.moved}
    assert relocator.move_window(window(MB)) == Outcome()


def test_pages_that_go_away() -> None:
    model = Model()
    fill(model, MB, BASE_PAGE)
    relocator = Relocator(model, plan())
    original = model._migrate

    def free_some(folios: list[Folio], node: int) -> int:
        for at in range(START + 512 * 1024, START + MB, BASE_PAGE):
            model.folio.pop(at, None)
        return original(folios, node)

    model._migrate = free_some  # type: ignore[method-assign]
    outcome = relocator.move_window(window(MB))
    assert (outcome.moved, outcome.gone, outcome.left) == (MB // 2, MB // 2, Counter())


def test_reasons_are_in_words() -> None:
    assert "pinned" in describe(errno.EBUSY)
    assert "--all" in describe(errno.EACCES)
    assert describe(errno.EPERM) == os.strerror(errno.EPERM)
