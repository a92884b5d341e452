# SPDX-License-Identifier: GPL-2.0-only
"""The cache: where it is, and that one at a time works on a part of it."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pagehaul import locks, paths


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PAGEHAUL_CACHE": "own", "XDG_CACHE_HOME": "xdg"}, "own"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/pagehaul"),
        ({}, "home/.cache/pagehaul"),
    ],
)
def test_cache_is_where_the_user_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("PAGEHAUL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert paths.cache_dir() == tmp_path / expected
    assert paths.cache_dir().is_dir()


def test_one_at_a_time(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time; from pagehaul import locks\n"
            "with locks.lock('x'): print('held', flush=True); time.sleep(1)",
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    started = time.monotonic()
    with locks.lock("y"):
        pass
    assert time.monotonic() - started < 0.5
    with locks.lock("x"):
        assert time.monotonic() - started > 0.5
    assert "waiting for another pagehaul, which is at work on x" in capsys.readouterr().err
    assert holder.wait() == 0


def test_a_thread_of_this_process_is_no_other_pagehaul(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = threading.Event()

    def hold() -> None:
        with locks.lock("x"):
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    with locks.lock("x"):
        pass
    thread.join()
    assert capsys.readouterr().err == ""


def test_read_only_tree_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "tree/mm").mkdir(parents=True)
    (tmp_path / "tree/mm/file").touch(0o444)
    (tmp_path / "tree/mm").chmod(0o555)
    (tmp_path / "tree").chmod(0o555)
    paths.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    paths.remove_tree(tmp_path / "tree")
