# SPDX-License-Identifier: GPL-2.0-only
"""How large windows are, and when they may begin."""

import time

import pytest

from pagehaul.move.outcome import Outcome
from pagehaul.move.pace import Pace
from pagehaul.move.stop import Stop

MB = 1 << 20
THP = 2 * MB
GB = 1 << 30


class Clock:
    """Time that passes only when somebody waits or moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.spend)

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def window(self, pace: Pace, bytes_a_second: float, moved: int | None = None) -> int:
        """Move a window at that speed; of its bytes, `moved` if not all. Returns its size."""
        size = pace.window_bytes()
        part = size if moved is None else moved

        def move() -> Outcome:
            self.spend(part / bytes_a_second)
            return Outcome(moved=part)

        pace.run(move, size, Stop())
        return size


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_without_limits_windows_are_large(clock: Clock) -> None:
    pace = Pace(THP)
    pace.begin(100 * GB, 8)
    assert pace.window_bytes() == 128 * MB
    clock.window(pace, MB)
    assert pace.window_bytes() == 128 * MB
    assert pace.longest == pytest.approx(128)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rate", [1e6, 50e6, 1e9])
def test_a_rate_is_kept(rate: float, threads: int, clock: Clock) -> None:
    pace = Pace(THP, rate=rate)
    pace.begin(100 * GB, threads)
    assert pace.window_bytes() <= max(THP, rate * 0.25 / threads)
    began = clock.now
    moved = sum(clock.window(pace, 10e9) for _ in range(200))
    # The last window does not wait for what it has moved itself.
    assert moved / (clock.now - began) == pytest.approx(rate, rel=0.02)


def test_time_in_which_nothing_moved_is_not_made_up_for(clock: Clock) -> None:
    pace = Pace(THP, rate=20e6)
    pace.begin(GB, 1)
    clock.window(pace, 10e9)
    clock.spend(1000)
    began = clock.now
    moved = sum(clock.window(pace, 10e9) for _ in range(100))
    assert moved / (clock.now - began) == pytest.approx(20e6, rel=0.03)


def test_who_waits_for_the_rate_is_stopped(clock: Clock) -> None:
    pace = Pace(THP, rate=1.0)
    pace.begin(GB, 1)
    clock.window(pace, 10e9)
    stop = Stop()
    stop.set()
    began = clock.now
    pace.run(Outcome, THP, stop)
    assert clock.now == began


def test_windows_follow_how_long_the_last_one_took(clock: Clock) -> None:
    pace = Pace(THP, max_stall=0.010)
    pace.begin(100 * GB, 8)
    assert pace.window_bytes() == THP, "the first is small: nobody knows yet how long it takes"
    speed = 4 * GB
    sizes = [clock.window(pace, speed) for _ in range(30)]
    assert all(size / speed <= 0.010 for size in sizes), "it is never too long"
    assert sizes[-1] / speed > 0.0025, "but not far from it"
    # The machine becomes slower: one window is too long, then they are small enough.
    slow = [clock.window(pace, speed / 16) for _ in range(10)]
    assert all(size / (speed / 16) <= 0.010 for size in slow[1:])
    assert pace.longest == pytest.approx(slow[0] / (speed / 16))


def test_a_window_is_no_smaller_than_a_huge_page(clock: Clock) -> None:
    pace = Pace(THP, max_stall=0.001)
    pace.begin(GB, 1)
    assert [clock.window(pace, MB) for _ in range(3)] == [THP] * 3


def test_a_window_that_moved_little_tells_nothing(clock: Clock) -> None:
    pace = Pace(THP, max_stall=0.010)
    pace.begin(GB, 1)
    for _ in range(10):
        clock.window(pace, GB, moved=THP // 8)
    assert pace.window_bytes() == THP


def test_the_size_is_kept_for_the_next_process(clock: Clock) -> None:
    pace = Pace(THP, max_stall=0.010)
    pace.begin(100 * GB, 8)
    for _ in range(10):
        clock.window(pace, 4 * GB)
    size = pace.window_bytes()
    pace.begin(100 * GB, 8)
    assert pace.window_bytes() == size > THP
