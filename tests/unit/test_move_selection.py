# SPDX-License-Identifier: GPL-2.0-only
"""Which processes are meant: by number, as a tree, as a cgroup."""

import os
from pathlib import Path

import pytest

from pagehaul.errors import NoProcessError
from pagehaul.move.selection import Identity, Selection, find_cgroup, parse_stat


def start(proc: Path, pid: int, parent: int, born: int = 5, state: str = "S") -> None:
    """Let there be a process `pid`."""
    (proc / str(pid)).mkdir(exist_ok=True)
    text = f"{pid} (a) b ( c) {state} {parent} " + " ".join(["0"] * 17) + f" {born} 0 0\n"
    (proc / str(pid) / "stat").write_text(text)


def end(proc: Path, pid: int) -> None:
    (proc / str(pid) / "stat").unlink()
    (proc / str(pid)).rmdir()


def found(selection: Selection) -> list[int]:
    return [each.pid for each in selection.find()]


def test_the_kernels_own_line() -> None:
    text = Path("/proc/self/stat").read_text()
    stat = parse_stat(text)
    assert (stat.parent, stat.ended) == (os.getppid(), False)
    assert str(stat.born) == text.split()[21]


def test_processes_by_number(tmp_path: Path) -> None:
    start(tmp_path, 7, 1)
    start(tmp_path, 8, 1, state="Z")
    selection = Selection([8, 7, 9, 7], proc=tmp_path)
    assert selection.named == selection.find() == [Identity(8, 5), Identity(7, 5)]
    assert selection.missing == [9]
    start(tmp_path, 9, 1)
    assert found(selection) == [8, 7], "what comes later is not what was named"


def test_a_tree_with_those_that_come_later(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1), (21, 20)):
        start(tmp_path, pid, parent)
    start(tmp_path, 13, 11, state="Z")
    selection = Selection([], [10, 99], proc=tmp_path)
    assert selection.missing == [99]
    assert found(selection) == [10, 11, 12]
    start(tmp_path, 14, 12)
    assert found(selection) == [10, 11, 12, 14]
    # When a parent ends, its children are given to another one, and so are theirs.
    end(tmp_path, 11)
    start(tmp_path, 12, 1)
    start(tmp_path, 15, 12)
    assert set(found(selection)) == {10, 12, 14, 15}


def test_a_number_that_is_used_again_is_not_in_the_tree(tmp_path: Path) -> None:
    start(tmp_path, 10, 1)
    start(tmp_path, 11, 10)
    selection = Selection([], [10], proc=tmp_path)
    assert found(selection) == [10, 11]
    start(tmp_path, 10, 1, born=90)
    start(tmp_path, 12, 10, born=91)
    start(tmp_path, 11, 1, born=92)
    assert found(selection) == []


def test_a_cgroup_and_those_below_it(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (root / "web/one").mkdir(parents=True)
    proc.mkdir()
    for pid in (5, 6, 7):
        start(proc, pid, 1)
    (root / "web/cgroup.procs").write_text("5\n0\n")
    (root / "web/one/cgroup.procs").write_text("6\n400\n")
    for name in ("web", "/web", str(root / "web")):
        assert find_cgroup(name, root) == root / "web"
    selection = Selection([6], cgroups=[find_cgroup("web", root)], proc=proc)
    assert found(selection) == [6, 5]
    (root / "web/one/cgroup.procs").write_text("6\n7\n")
    assert found(selection) == [6, 5, 7]
    with pytest.raises(NoProcessError, match="there is no cgroup db"):
        find_cgroup("db", root)
    (root / "web").rename(root / "gone")
    assert found(selection) == [6]


def test_a_threaded_cgroup_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "threads").mkdir()
    start(tmp_path, 5, 1)
    (tmp_path / "cgroup.procs").write_text("5\n")
    (tmp_path / "threads/cgroup.procs").write_text("")
    original = Path.read_text

    def refuse(self: Path, *args: object, **words: object) -> str:
        if self.parent.name == "threads":
            raise OSError(95, "Operation not supported")
        return original(self, *args, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", refuse)
    assert found(Selection([], cgroups=[tmp_path], proc=tmp_path)) == [5]


def test_the_tool_leaves_itself_alone(tmp_path: Path) -> None:
    own = os.getpid()
    start(tmp_path, own, 1)
    (tmp_path / "cgroup.procs").write_text(f"{own}\n")
    assert found(Selection([], [own], [tmp_path], proc=tmp_path)) == []
    assert found(Selection([own], [own], [tmp_path], proc=tmp_path)) == [own]
