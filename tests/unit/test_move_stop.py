# SPDX-License-Identifier: GPL-2.0-only
"""Ending early, by a signal or because something failed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pagehaul.move.stop import SignalStop, Stop


def test_a_stop_is_set_with_its_parent() -> None:
    parent = Stop()
    one, other = Stop(parent), Stop(parent)
    one.set()
    assert (one.is_set(), other.is_set(), parent.is_set()) == (True, False, False)
    parent.set()
    assert other.is_set()


def test_waiting() -> None:
    stop = Stop()
    began = time.monotonic()
    assert not stop.wait(0.12)
    assert time.monotonic() - began >= 0.12
    assert not stop.wait(-1)
    stop.set()
    began = time.monotonic()
    assert stop.wait(60)
    assert time.monotonic() - began < 30


def test_waiting_ends_soon_when_another_thread_sets_it() -> None:
    stop = Stop()
    began = time.monotonic()
    threading.Timer(0.1, stop.set).start()
    assert stop.wait(20)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_sets_it_and_raises_nothing(number: int, status: int, word: str) -> None:
    before = signal.getsignal(number)
    with SignalStop() as stop:
        assert (stop.status, stop.word) == (0, None)
        child = Stop(stop)
        os.kill(os.getpid(), number)
        assert child.wait(30)
        assert (stop.status, stop.word) == (status, word)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL, "the second one kills"
    assert signal.getsignal(number) == before


def test_a_second_signal_kills() -> None:
    code = (
        "import os, signal\n"
        "from pagehaul.move.stop import SignalStop\n"
        "with SignalStop():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('alive', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "alive\n")
