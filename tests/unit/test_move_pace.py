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

    def window(self, pace: Pace, bytes_a_second: float) -> int:
        """Move a window at that speed; returns its size."""
        size = pace.window_bytes()

        def move() -> Outcome:
            self.spend(size / bytes_a_second)
            return Outcome(moved=size)

        pace.run(move, Stop())
        return size


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_without_limits_windows_become_large(clock: Clock) -> None:
    pace = Pace(THP)
    for _ in range(2):
        # The first one is known soon, and moves while the others are looked at.
        pace.begin(100 * GB, 8)
        sizes = [pace.window_bytes() for _ in range(5)]
        assert sizes == [size * MB for size in (8, 32, 128, 256, 256)]
        clock.window(pace, MB)
        assert pace.window_bytes() == 256 * MB


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rate", [1e6, 50e6, 1e9])
def test_a_rate_is_kept(rate: float, threads: int, clock: Clock) -> None:
    pace = Pace(THP, rate=rate)
    pace.begin(100 * GB, threads)
    assert THP <= pace.window_bytes() <= max(THP, rate * 0.25 / threads)
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


def test_callers_at_once_keep_the_rate_together(clock: Clock) -> None:
    pace = Pace(THP, rate=1.0)
    began = clock.now

    def move() -> Outcome:
        pace.run(lambda: Outcome(moved=100), Stop())
        return Outcome(moved=100)

    pace.run(move, Stop())
    pace.run(Outcome, Stop())
    assert clock.now - began == pytest.approx(200)


def test_who_waits_for_the_rate_is_stopped(clock: Clock) -> None:
    pace = Pace(THP, rate=1.0)
    pace.begin(GB, 1)
    clock.window(pace, 10e9)
    stop = Stop()
    stop.set()
    began = clock.now
    pace.run(Outcome, stop)
    assert clock.now == began
