# SPDX-License-Identifier: GPL-2.0-only
"""Which processes are meant: by number, as a tree, as a cgroup."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pagehaul.errors import NoProcessError

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Identity:
    """One process for ever: a later one with the same number was born at another time."""

    pid: int
    born: int  # clock ticks after the boot


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat says of a process."""

    parent: int
    born: int  # clock ticks after the boot
    ended: bool  # a zombie has no memory any more


def _fields(text: str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    # The name in parentheses may have spaces and parentheses itself.
    return text.rpartition(")")[2].split()


def has_ended(text: str) -> bool:
    """Whether /proc/PID/stat tells of a process without memory; IndexError on anything else."""
    return _fields(text)[0] in "ZXx"


def parse_stat(text: str) -> Stat:
    """Read /proc/PID/stat; raises IndexError or ValueError on anything else."""
    fields = _fields(text)
    return Stat(int(fields[1]), int(fields[19]), has_ended(text))


def read_stat(pid: int, proc: Path = PROC) -> Stat | None:
    """Read what /proc says of process `pid`; None when there is none."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_text(errors="replace"))
    except (OSError, IndexError, ValueError):
        return None


def _everybody(proc: Path) -> dict[int, Stat]:
    pids = (int(name) for name in os.listdir(proc) if name.isdecimal())
    found = ((pid, read_stat(pid, proc)) for pid in pids)
    return {pid: stat for pid, stat in found if stat is not None}


def find_cgroup(name: str, root: Path = CGROUPS) -> Path:
    """Return the directory of a cgroup: a path, or a name below the mount at `root`.

    Also as /proc/PID/cgroup writes it, with a "/" in front. Raises NoProcessError.
    """
    for path in (Path(name), root / name.lstrip("/")):
        if (path / "cgroup.procs").is_file():
            return path
    raise NoProcessError(f"there is no cgroup {name}, nor one of that name in {root}")


def _members(group: Path) -> Iterator[int]:
    """Yield the processes of a cgroup and of all below it; none when it has gone."""
    for directory, _, names in os.walk(group):
        if "cgroup.procs" not in names:
            continue
        try:
            text = (Path(directory) / "cgroup.procs").read_text()
        except OSError:
            # It has gone, or is threaded: its processes are in the cgroup above it.
            continue
        # 0 is a process outside this PID namespace, and is not in its /proc.
        yield from map(int, text.split())


class Selection:
    """The processes that the user means.

    A process is named by its number, or is in one of the trees or cgroups. Of a tree, those are
    found whose parent is alive when it is looked for, or was when an earlier look found them. This
    process itself is meant only when it is named.
    """

    def __init__(
        self,
        pids: Iterable[int],
        trees: Iterable[int] = (),
        cgroups: Iterable[Path] = (),
        proc: Path = PROC,
    ) -> None:
        self.proc = proc
        self.missing: list[int] = []  # named, or roots of a tree, and not there
        self.named = self._identities(pids)
        self._tree = dict.fromkeys(self._identities(trees))
        self._cgroups = tuple(cgroups)

    def _identities(self, pids: Iterable[int]) -> list[Identity]:
        """Return who has these numbers now, each once; adds to `missing`."""
        found: dict[Identity, None] = {}
        for pid in pids:
            stat = read_stat(pid, self.proc)
            if stat is None:
                self.missing.append(pid)
            else:
                found[Identity(pid, stat.born)] = None
        return list(found)

    def find(self) -> list[Identity]:
        """Look for the processes: first those named, each once.

        Those named are in it even when they have ended since.
        """
        found = dict.fromkeys(self.named)
        own = os.getpid()
        for each in (*self._find_tree(), *self._find_members()):
            if each.pid != own:
                found[each] = None
        return list(found)

    def _find_tree(self) -> list[Identity]:
        if not self._tree:
            return []
        everybody = _everybody(self.proc)
        children: dict[int, list[int]] = {}
        for pid, stat in everybody.items():
            children.setdefault(stat.parent, []).append(pid)
        alive = [
            each
            for each in self._tree
            if each.pid in everybody and everybody[each.pid].born == each.born
        ]
        self._tree = dict.fromkeys(alive)
        while alive:
            for pid in children.get(alive.pop().pid, ()):
                child = Identity(pid, everybody[pid].born)
                if child not in self._tree:
                    self._tree[child] = None
                    alive.append(child)
        return [each for each in self._tree if not everybody[each.pid].ended]

    def _find_members(self) -> Iterator[Identity]:
        for group in self._cgroups:
            for pid in _members(group):
                stat = read_stat(pid, self.proc)
                if stat is not None and not stat.ended:
                    yield Identity(pid, stat.born)
