# SPDX-License-Identifier: GPL-2.0-only
"""Processes whose pages are moved, and the verb that moves them; for tests in a guest."""

import argparse
import contextlib
import io
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from pagehaul.cli import move
from pagehaul.errors import PagehaulError
from pagehaul.move.movepages import Addresses, MovePages, Status

MB = 1 << 20
PAGES = MB // 4096  # base pages of a MB

# The path of the program made from victim.c; main() of the tests sets it.
program = ""


class Victim:
    """A running victim; see victim.c."""

    def __init__(self, *regions: str, uid: int = 0) -> None:
        self._kinds = {region.partition("=")[0] for region in regions}
        self.process = subprocess.Popen(
            [program, *regions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=uid or None,
            group=uid or None,
            extra_groups=[] if uid else None,
        )
        self.pid = self.process.pid
        self._expect("ready")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _expect(self, expected: str) -> None:
        line = self._line()
        assert line == expected, f"{line} is not {expected}"

    def _send(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()

    def __enter__(self) -> "Victim":
        return self

    def __exit__(self, *args: object) -> None:
        self.process.kill()
        self.process.wait()

    def check(self) -> dict[str, dict[int, int]]:
        """Let the victim look at every word; return the base pages of each region by node."""
        self._send("check")
        regions = {}
        while (line := self._line()) != "done":
            kind, wrong, *nodes = line.split()
            assert wrong == "0", f"{kind}: {wrong} words are wrong"
            pairs = (each.split(":") for each in nodes)
            regions[kind] = {int(node): int(n) for node, n in pairs}
        assert regions.keys() == self._kinds, f"{list(regions)} have been looked at"
        return regions

    def order(self, order: str, answer: str = "done") -> None:
        """Let the victim do something; see victim.c."""
        self._send(order)
        self._expect(answer)

    def leave(self) -> None:
        """Let the victim exit by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait() == 0


def move_pages(pid: int, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the verb on a process, and maybe others; returns its exit status and what it printed."""
    return run_verb(str(pid), *words)


def run_verb(*words: str) -> tuple[int, dict[str, Any]]:
    """Run the verb with --json; returns its exit status and what it printed."""
    parser = argparse.ArgumentParser()
    move.add_arguments(parser)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = move.run(parser.parse_args([*words, "--json"]))
    result = json.loads(output.getvalue())
    print(f"# move {' '.join(words)}: {result}".replace("\n", " "), flush=True)
    return status, result


def left_of(result: dict[str, Any]) -> Counter[str]:
    return Counter({each["errno"]: each["pages"] for each in result["left"]})


def expect_nodes(victim: Victim, expected: dict[str, dict[int, int]]) -> None:
    found = victim.check()
    assert found == expected, f"{found} is not {expected}"


def error_of(pid: int, *words: str) -> str:
    try:
        move_pages(pid, *words)
    except PagehaulError as exc:
        assert "\n" not in str(exc), "more than a line"
        return str(exc)
    raise AssertionError("no error")


@contextlib.contextmanager
def before_call(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Let `act` happen before the call of move_pages(2) with this number that moves pages."""
    calls = 0
    original = MovePages.move

    def move(self: MovePages, addresses: Addresses, node: int) -> tuple[int, Status]:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return original(self, addresses, node)

    MovePages.move = move  # type: ignore[method-assign]
    try:
        yield
        assert calls >= number, f"only {calls} calls"
    finally:
        MovePages.move = original  # type: ignore[method-assign]
