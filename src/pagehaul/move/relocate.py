# SPDX-License-Identifier: GPL-2.0-only
"""Moving the pages of an address space window by window: which page goes where, in what order.

The order matters. move_pages(2) collects the folios of the addresses it is given and moves them
together, but an address whose folio it has already collected ends the list (EBUSY): naming all
512 pages of each transparent huge page moves the huge pages one by one. So every folio is named
once, although nothing but PAGEMAP_SCAN says where a large folio begins, and that for huge pages
alone. Where it says nothing, addresses are passed by falling alignment: of the multiples of a
folio's size one lies in the folio, so that the pass of that alignment moves it whole; its other
pages are then found on their new node and skipped. Where only base pages were found, those of the
next window are named at once, until a call refuses one.

To ask where pages are takes the kernel a quarter of the time that one CPU needs to move them, and
nobody helps with that. It is asked only where nothing else tells: before a move unless `locate`
knows, or all pages of the mapping were on the one FROM node and no node is neither FROM nor TO;
afterwards of all pages but those of calls that returned 0. Of other calls the status array only
says why a page stayed: the kernel leaves it unwritten when a list fails.
"""

import errno
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from pagehaul.move.addrspace import Kind
from pagehaul.move.batch import Batch, Busy, Index, alignment_of, best_aligned, take_turns
from pagehaul.move.calls import Calls
from pagehaul.move.mappings import BASE_PAGE
from pagehaul.move.movepages import UNWRITTEN, Addresses, PageMover, Status
from pagehaul.move.outcome import Outcome
from pagehaul.move.stop import Stop
from pagehaul.move.windows import STAY, Plan, Window, is_one_of

# A node is full when this many calls in a row answer ENOMEM and move nothing: one alone can come
# from a large folio that found no huge page over there and could not be split.
_FULL_AFTER = 4


class Relocator:
    """Moves windows; `move_window()` may be called by several threads at once.

    It ends when its own `stop` is set, or the `stop` that it is given, which others may share.
    `calls` says how much a call may be given. `locate`, if there is something that knows better
    than the kernel is asked, tells the nodes of a window's pages, UNWRITTEN for some.
    """

    def __init__(
        self,
        mover: PageMover,
        plan: Plan,
        stop: Stop | None = None,
        calls: Calls | None = None,
        locate: Callable[[Window], Status | None] = lambda window: None,
    ) -> None:
        self._mover = mover
        self._locate = locate
        self._plan = plan
        self._calls = calls or Calls()
        self._full: set[tuple[int, int]] = set()  # (node, page size) without room
        self._vain: Counter[tuple[int, int]] = Counter()  # calls in a row that found no room
        self._busy = Busy()
        self._base_pages = False  # no larger folios were found where it was looked last
        self.stop = Stop(stop)

    def move_window(self, window: Window) -> Outcome:
        """Move one window; raises OSError when the kernel refuses or the process has ended.

        After such an error, and after `stop`, nothing more is moved by this object. Pages that
        are busy are in no outcome until they are moved again or given up.
        """
        outcome = self._unless_stopped(lambda: self._move_window(window))
        if window.kind is Kind.BASE and window.home is not None and self._plan.complete:
            # Nobody has looked at its pages: small holes between them look as if some had gone.
            outcome.gone = 0
        return outcome

    @property
    def busy(self) -> tuple[Batch, ...]:
        """What was busy when it was moved, if it is little enough to be tried again."""
        return self._busy.batches

    def move_again(self, batch: Batch) -> Outcome:
        """Move what was busy, as move_window() does."""
        return self._unless_stopped(lambda: self._move_again(batch))

    def pause(self, seconds: float) -> None:
        """Wait, unless somebody stops this object."""
        self.stop.wait(seconds)

    def give_up(self) -> Outcome:
        """Count those that are busy still, or were not tried again, as left."""
        size = self._busy.give_up()
        return Outcome(left=Counter({errno.EBUSY: size} if size else {}))

    def _unless_stopped(self, move: Callable[[], Outcome]) -> Outcome:
        if self.stop.is_set():
            return Outcome()
        try:
            return move()
        except OSError:
            self.stop.set()
            raise

    def _move_window(self, window: Window) -> Outcome:
        addresses = window.addresses()
        home = self._home(window, addresses)
        outcome = Outcome()
        # Holes, and what is where it should be, are not named.
        leaving = is_one_of(home, self._plan.moving)
        if not leaving.any():
            return outcome
        if not leaving.all():
            addresses, home = addresses[leaving], home[leaving]
        node = self._plan.target_of_all(home, window.page_size)
        at_once = self._may_name_all(window, len(addresses), node)
        if node is not None and at_once:
            now = self._name_all(addresses, node)
            moved = now == node
            outcome.moved = int(moved.sum()) * BASE_PAGE
            outcome.gone = int((~moved & (now != home)).sum()) * BASE_PAGE
            if moved.all():
                return outcome
            # Those that are elsewhere now, on another FROM node perhaps, have been settled.
            home = np.where(now == home, home, np.int32(-errno.ENOENT))
        outcome.add(self._move_by_size(window, addresses, home))
        if at_once:
            # What is left of it may be what nobody can move, and tells nothing of others.
            self._base_pages = False
        return outcome

    def _may_name_all(self, window: Window, count: int, node: int | None) -> bool:
        if node is None or window.kind is not Kind.BASE or (node, BASE_PAGE) in self._full:
            return False
        most = self._calls.most(BASE_PAGE)
        return self._base_pages and (most is None or most >= count)

    def _name_all(self, addresses: Addresses, node: int) -> Status:
        """Move pages by one call, and return where they are then."""
        started = time.monotonic()
        result, status = self._mover.move(addresses, node)
        self._calls.learn(BASE_PAGE, len(addresses), started, sure=result == 0)
        if result == 0 and (status == node).all():
            return status
        # Pages of a folio that was named before are refused, though they move with it.
        self._base_pages = False
        return self._mover.query(addresses)

    def _move_by_size(self, window: Window, addresses: Addresses, home: Status) -> Outcome:
        """Move pages of folios that may have any size, those of one size after the other."""
        targets = self._plan.targets(addresses, home, window.page_size)
        chosen = targets != STAY
        page_size = BASE_PAGE if window.kind is Kind.THP else window.page_size
        cause = np.zeros(len(addresses), np.int32)
        batch = Batch(addresses, home, targets, page_size, cause)
        if not chosen.all():
            batch = batch.select(chosen)
        if window.kind is Kind.BASE:
            self._move_targets(batch, self._move_unknown_folios)
        else:
            self._move_targets(batch, partial(self._move_each, size=window.page_size))
        if window.kind is Kind.THP:
            outcome, batch = self._finish_split(batch, window.page_size)
            outcome.add(self._account(batch))
            return outcome
        return self._account(batch)

    def _home(self, window: Window, addresses: Addresses) -> Status:
        """Return the nodes of pages; they need not be asked for where only one is possible."""
        if window.home is not None and self._plan.complete:
            return np.full(len(addresses), window.home, np.int32)
        home = self._locate(window)
        if home is None:
            return self._mover.query(addresses)
        unknown = np.flatnonzero(home == UNWRITTEN)
        home[unknown] = self._mover.query(addresses[unknown])
        return home

    def _move_again(self, batch: Batch) -> Outcome:
        batch.cause[:] = 0
        if batch.page_size > BASE_PAGE:
            self._move_targets(batch, partial(self._move_each, size=batch.page_size))
        else:
            self._move_targets(batch, self._move_unknown_folios)
        return self._account(batch)

    def _move_targets(
        self, batch: Batch, move: Callable[[Batch, Index, int], None], first: Index | None = None
    ) -> None:
        """Let `move` move the pages of each target node; who finds no room there tries the others.

        Also where the node is not full: a page may find no room beside others that do, and a few
        pages do not tell that a node is full.
        """
        destinations = np.array(self._plan.destinations, np.int32)
        pending = batch.everything if first is None else first
        if self._plan.paired:
            self._move_to_each(batch, move, pending)
            return
        tried = np.zeros((len(batch.addresses), len(destinations)), np.bool_)
        while len(pending):
            tried[pending] |= batch.targets[pending, None] == destinations
            self._move_to_each(batch, move, pending)
            short = self._still_home(batch, pending[batch.cause[pending] == errno.ENOMEM])
            full = [(node, batch.page_size) in self._full for node in self._plan.destinations]
            others = ~(tried[short] | np.array(full))
            some = others.any(axis=1)
            pending = short[some]
            batch.cause[pending] = 0
            batch.targets[pending] = destinations[take_turns(others[some])]

    def _move_to_each(
        self, batch: Batch, move: Callable[[Batch, Index, int], None], index: Index
    ) -> None:
        targets = batch.targets[index]
        for node in self._plan.destinations:
            here = targets == node
            if here.any():
                move(batch, index if here.all() else index[here], node)

    def _still_home(self, batch: Batch, index: Index) -> Index:
        now = self._mover.query(batch.addresses[index])
        still: Index = index[now == batch.home[index]]
        return still

    def _move_each(
        self, batch: Batch, index: Index, node: int, size: int, sure: bool = True
    ) -> None:
        """Move pages of which no two are in one folio, as far as is known.

        The folios have `size` bytes, or fewer where that is not `sure`.
        """
        while len(index):
            if (node, batch.page_size) in self._full:
                batch.cause[index] = errno.ENOMEM
                return
            most = self._calls.most(size)
            now, later = index[:most], index[len(index) if most is None else most :]
            left = self._call(batch, now, node, size, sure)
            index = np.concatenate((left, later)) if len(left) else later

    def _call(self, batch: Batch, index: Index, node: int, size: int, sure: bool) -> Index:
        """Call move_pages(2) once; returns the pages that it has not tried."""
        key = (node, batch.page_size)
        while not self.stop.is_set():
            started = time.monotonic()
            result, status = self._mover.move(batch.addresses[index], node)
            self._calls.learn(size, len(index), started, sure=sure and result == 0)
            refused = (status < 0) & (status != UNWRITTEN)
            if result == 0:
                batch.arrived[index] = status == node
            batch.cause[index[refused]] = -status[refused]
            if result == -errno.ENOMEM:
                left = self._still_home(batch, index[~refused])
                batch.cause[left] = errno.ENOMEM
                vain = len(left) == len(index) - int(refused.sum())
                self._vain[key] = self._vain[key] + 1 if vain else 1
                if self._vain[key] >= _FULL_AFTER or not len(left):
                    if len(left):
                        self._full.add(key)
                    return left[:0]
                # The kernel moves in order: the first that is left is the one without a place.
                index = left[1:]
                if not len(index):
                    return index
                continue
            self._vain[key] = 0
            if result == 0:
                return index[:0]
            # Stopped early, or has the last list failed? Only in the first case do the pages not
            # moved outnumber those behind the last status written. The query at the end of the
            # window finds pages that were tried and did not arrive.
            written = np.flatnonzero(status != UNWRITTEN)
            resume = int(written[-1]) + 1 if len(written) else 0
            if resume == 0 or result <= len(index) - resume:
                return index[:0]
            return index[resume:]
        batch.cause[index] = errno.EINTR
        return index[:0]

    def _move_unknown_folios(self, batch: Batch, index: Index, node: int) -> None:
        """Move base pages that may belong to folios of any size; see the top of this file."""
        # One page of each huge-page-sized piece goes first, and shows how large folios are here.
        heads = best_aligned(batch.addresses[index], self._plan.grain)
        self._move_each(batch, index[heads], node, self._plan.grain, sure=False)
        largest = self._largest_folio(batch, index[heads], node)
        rest = index[~heads]
        if largest <= BASE_PAGE:
            self._base_pages = largest == BASE_PAGE
            self._move_each(batch, rest, node, BASE_PAGE)
            return
        rest = self._still_home(batch, rest)
        alignment = np.minimum(alignment_of(batch.addresses[rest]), np.uint64(largest))
        size = largest
        while size >= BASE_PAGE:
            turn = rest[alignment == np.uint64(size)]
            self._move_each(batch, self._still_home(batch, turn), node, size)
            size //= 2

    def _largest_folio(self, batch: Batch, heads: Index, node: int) -> int:
        """Bytes, at least, of the largest folio that moved when only `heads` were named, or 0.

        A folio that is not aligned in the address space may lie before its head for the most
        part. More than a quarter of it lies on one side, so that twice the distance at which a
        page came along, and twice that, is no less than the folio.
        """
        here = self._mover.query(batch.addresses[heads]) == node
        addresses = batch.addresses[heads[here]]
        named = np.zeros(len(batch.addresses), np.bool_)
        named[heads] = True
        size, seen = self._plan.grain, False
        while size > BASE_PAGE:
            reach = np.uint64(size // 2)
            probes = np.concatenate((addresses + reach, addresses - reach))
            place = np.searchsorted(batch.addresses, probes)
            place = np.minimum(place, len(batch.addresses) - 1)
            # Only pages that are to move and were not named themselves tell anything.
            fair = (batch.addresses[place] == probes) & ~named[place]
            seen |= bool(fair.any())
            if (self._mover.query(probes[fair]) == node).any():
                return min(2 * size, self._plan.grain)
            size //= 2
        return BASE_PAGE if seen else 0

    def _finish_split(self, huge: Batch, huge_size: int) -> tuple[Outcome, Batch]:
        """Go base page by base page through huge pages that did not move, or not whole.

        The kernel splits those that it finds no place for, moves of the pieces what it can, and
        returns that it could not move all when any is left. One that was split before it was named
        loses its first piece only, in which the last page is not. Returns what has moved, and a
        batch of the base pages of the others.
        """
        last = huge.addresses + np.uint64(huge_size - BASE_PAGE)
        arrived = huge.arrived & (self._mover.query(last) == huge.targets)
        moved = Outcome(moved=int(arrived.sum()) * huge_size)
        huge = huge.select(~arrived)
        if arrived.all():
            return moved, huge
        pages = huge_size // BASE_PAGE
        offsets = np.arange(pages, dtype=np.uint64) * np.uint64(BASE_PAGE)
        batch = Batch(
            (huge.addresses[:, None] + offsets).ravel(),
            np.repeat(huge.home, pages),
            np.repeat(huge.targets, pages),
            BASE_PAGE,
            np.repeat(huge.cause, pages),
        )
        home = self._home_map(batch, pages)
        # One page that is not the first: of a huge page that could not be moved nothing changes,
        # of one that was split it either moves or tells why not.
        whole = np.flatnonzero(home.all(axis=1) & (huge.cause != errno.EACCES))
        one_each = partial(self._move_each, size=huge_size)
        self._move_targets(batch, one_each, whole * pages + 1)
        # It may have gone to another node than was meant at first.
        batch.targets.reshape(-1, pages)[whole] = batch.targets[whole * pages + 1, None]
        if len(whole):
            home = self._home_map(batch, pages)
        split = np.flatnonzero(home.any(axis=1) & ~home.all(axis=1))
        rows, columns = np.nonzero(home[split])
        each = partial(self._move_each, size=BASE_PAGE)
        self._move_targets(batch, each, split[rows] * pages + columns)
        # The reason given for the page tried above holds for its whole huge page.
        causes = batch.cause.reshape(-1, pages)
        untried = home.all(axis=1) & (causes[:, 1] != 0)
        causes[untried] = causes[untried, 1:2]
        return moved, batch

    def _home_map(self, batch: Batch, pages: int) -> npt.NDArray[np.bool_]:
        """Return a row for each huge page: which of its base pages are still on the old node."""
        home: npt.NDArray[np.bool_] = self._mover.query(batch.addresses) == batch.home
        return home.reshape(-1, pages)

    def _account(self, batch: Batch) -> Outcome:
        now = batch.targets.copy()
        unknown = np.flatnonzero(~batch.arrived)
        now[unknown] = self._mover.query(batch.addresses[unknown])
        moved = now == batch.targets
        home = now == batch.home
        outcome = Outcome(moved=int(moved.sum()) * batch.page_size)
        # A page that was tried and got no errno of its own was in a list that failed: pinned.
        busy = home & is_one_of(batch.cause, (0, errno.EBUSY))
        given_up = self._busy.set_aside(batch, batch.select(busy))
        if given_up:
            outcome.left[errno.EBUSY] = given_up
        causes = batch.cause[home & ~busy]
        for cause, count in zip(*np.unique(causes, return_counts=True), strict=True):
            outcome.left[int(cause)] += int(count) * batch.page_size
        outcome.gone = int((~moved & ~home).sum()) * batch.page_size
        return outcome
