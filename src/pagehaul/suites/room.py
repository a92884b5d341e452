# SPDX-License-Identifier: GPL-2.0-only
"""Room for guests: as many at once as this machine has CPUs and memory for.

Suites run in processes of their own, so the places are locks on files.
"""

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from pagehaul.errors import PagehaulError
from pagehaul.host import facts
from pagehaul.paths import cache_dir

# MiB that the host keeps for itself.
HOST_RESERVE_MB = 2048

# Seconds between two looks, and until a guest has taken its memory.
_LOOK_S = 0.2
_TAKES_S = 10.0


@contextmanager
def hold(memory_mb: int, *, alone: bool = False, stop: Event | None = None) -> Iterator[None]:
    """Hold a place for a guest of so many MiB while the block runs; all places if it is alone.

    A guest that does not fit beside others waits until enough of them have ended. Raises
    PagehaulError when another thread sets `stop`.
    """
    directory = cache_dir() / "locks"
    directory.mkdir(exist_ok=True)
    places = [directory / f"guest-{number}" for number in range(facts.cpus())]
    for place in places:
        place.touch()
    with ExitStack() as held:
        with ExitStack() as turn:
            while not _take(directory / "guest-turn", turn):
                _look_again(stop)
            taken: list[Path] = []
            needed = len(places) if alone else 1
            while len(taken) < needed:
                found = next((each for each in places if _take(each, held)), None)
                if found is None:
                    _look_again(stop)
                else:
                    places.remove(found)
                    taken.append(found)
                if len(taken) == needed and places and not _fits(memory_mb, places):
                    needed += 1
            taken[0].write_text(f"{memory_mb} {time.time()}", encoding="ascii")
        yield


def _fits(memory_mb: int, others: Sequence[Path]) -> bool:
    """Whether there is memory for a guest; guests in `others` may not have taken theirs yet."""
    available = facts.memory_available_mb() - HOST_RESERVE_MB
    for place in others:
        words = place.read_text(encoding="ascii").split()
        if words and time.time() - float(words[1]) < _TAKES_S:
            available -= int(words[0])
    return available >= memory_mb


def _take(path: Path, stack: ExitStack) -> bool:
    """Lock a file until the stack is unwound, unless somebody else has locked it."""
    file = path.open("a", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    stack.enter_context(file)
    return True


def _look_again(stop: Event | None) -> None:
    """Wait a moment; PagehaulError if there is no more to wait for."""
    if stop is None:
        time.sleep(_LOOK_S)
    elif stop.wait(_LOOK_S):
        raise PagehaulError("stopped")
