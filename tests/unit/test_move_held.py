# SPDX-License-Identifier: GPL-2.0-only
"""A process is held, so that another one that gets its number is never moved."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pagehaul.errors import NoProcessError
from pagehaul.move.addrspace import Process
from pagehaul.move.movepages import MovePages


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def without_pidfd(pid: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.parametrize("pidfd", [True, False])
def test_who_holds_a_process_notices_its_end(
    pidfd: bool, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pidfd:
        monkeypatch.setattr(os, "pidfd_open", without_pidfd)
    with Process(child.pid) as process:
        exists = process.hold()
        assert exists()
        child.kill()
        child.wait()
        assert not exists()
        with pytest.raises(NoProcessError, match="it has ended"):
            process.hold()


def test_a_pidfd_of_another_process_is_not_taken(child: subprocess.Popen[bytes]) -> None:
    """The number is used again between opening the directory and opening the pidfd."""
    with Process(child.pid) as process:
        child.kill()
        child.wait()
        process.pid = os.getpid()
        with pytest.raises(NoProcessError):
            process.hold()


def test_descriptors_are_closed(child: subprocess.Popen[bytes]) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with Process(child.pid) as process:
            process.hold()
            process.can_scan()
            assert len(os.listdir("/proc/self/fd")) == len(before) + 3
    assert os.listdir("/proc/self/fd") == before


def test_the_kernel_is_not_called_for_a_process_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = [True]
    mover = MovePages(os.getpid(), exists=lambda: there[0])
    calls = []
    monkeypatch.setattr(mover, "_syscall", lambda *args: calls.append(args) or 0)
    addresses = np.array([4096], np.uint64)
    mover.probe()
    mover.query(addresses)
    mover.move(addresses, 0)
    assert len(calls) == 3
    there[0] = False
    for call in (mover.probe, lambda: mover.query(addresses), lambda: mover.move(addresses, 0)):
        with pytest.raises(ProcessLookupError):
            call()
    assert len(calls) == 3
