# SPDX-License-Identifier: GPL-2.0-only
"""The `clean` verb: lists, asks, and removes what is ours."""

import io
import os
from pathlib import Path

import pytest

from pagehaul import locks
from pagehaul.cli import main
from pagehaul.host.cache import disk_bytes

KB = 1 << 10


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a source, a tree, results, and what is not ours."""
    monkeypatch.setenv("PAGEHAUL_CACHE", str(tmp_path))
    for name in ("source/linux", "tree", "results", "photos", "locks"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * 100 * KB)
    (tmp_path / "source/linux").chmod(0o500)
    return tmp_path


def names(cache: Path) -> set[str]:
    return set(os.listdir(cache))


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(text))


def test_all_that_can_be_made_again_is_removed(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["clean", "--yes"]) == 0
    assert names(cache) == {"results", "photos", "locks"}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[:2]] == ["source", "tree"]
    assert lines[0].lstrip().startswith("0.1 MB")
    assert lines[2].endswith(f"together, in {cache}")
    assert lines[3:] == ["removed"]
    assert main.main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out == f"nothing to remove in {cache}\n"


@pytest.mark.parametrize(
    ("text", "removed"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)],
)
def test_it_asks(
    text: str,
    removed: bool,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer(monkeypatch, text)
    assert main.main(["clean"]) == 0
    assert ("tree" not in names(cache)) == removed
    written = capsys.readouterr()
    assert "Remove all of that? [y/N]" in written.err
    assert written.out.splitlines()[-1] == ("removed" if removed else "nothing was removed")


def test_nobody_to_ask(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main.main(["clean"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert "tree" in names(cache)


def test_some_caches_by_name(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["clean", "results", "tree", "--yes"]) == 0
    assert names(cache) == {"source", "photos", "locks"}
    assert main.main(["clean", "photos", "--yes"]) == 2
    assert "there is no cache photos" in capsys.readouterr().err
    assert "photos" in names(cache)


def test_not_while_another_one_is_at_work(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locks.lock("tree-pagehaul"):
        assert main.main(["clean", "--yes"]) == 1
    assert "another pagehaul is at work on tree-pagehaul" in capsys.readouterr().err
    assert {"source", "tree"} <= names(cache)
    assert main.main(["clean", "--yes"]) == 0


def test_sizes_are_those_on_the_disk(tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    (directory / "a").write_bytes(b"x" * 64 * KB)
    os.link(directory / "a", directory / "b")
    with (directory / "hole").open("wb") as file:
        file.truncate(1 << 30)
    (directory / "link").symlink_to("/usr")
    assert 64 * KB <= disk_bytes(directory) < 128 * KB
