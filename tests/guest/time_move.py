# SPDX-License-Identifier: GPL-2.0-only
"""Times `move` beside migratepages(8) and bare move_pages(2), in a guest in virtual time.

    python tests/guest/time_move.py VICTIM MOVEWINDOWS MB KIND...

VICTIM and MOVEWINDOWS are the programs made from victim.c and movewindows.c; a KIND is one of
victim.c's. Each way moves MB of each kind from node 0 to node 1, of a process of its own. Prints
TAP, with a line of JSON for each way; exits with 1 when a test fails.

The time of `move` is the one that it tells: from the search to the account, without the start of
Python and the first use of its code, which comes from the host's files: it runs in this process,
after it has moved a small one. That of migratepages is its whole run, and that of move_pages from
the first call to the end of the last one.
"""

import contextlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import victims
from victims import MB

from pagehaul.cli.main import main as main_of_verbs
from pagehaul.move import planning
from pagehaul.move.addrspace import Process
from pagehaul.move.mappings import bytes_by_node, spans
from pagehaul.move.windows import window_bytes, windows

# How far `move` may be behind the calls alone, made by a C program in the same windows.
MOST_BEHIND = 1.05

# MB of what is moved first, and not measured.
SMALL_MB = 64


@dataclass
class Taken:
    """Seconds for the moving, and of the whole program."""

    seconds: float
    whole: float


def run(*command: str, text: str | None = None) -> tuple[str, float]:
    """Run a command; return its output and the seconds that it took."""
    started = time.monotonic()
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, time.monotonic() - started


def by_move(pid: int) -> Taken:
    started = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = main_of_verbs(["move", str(pid), "0", "1", "--json"])
    assert status == 0, output.getvalue()
    return Taken(json.loads(output.getvalue())["seconds"], time.monotonic() - started)


def by_migratepages(pid: int) -> Taken:
    _, whole = run("migratepages", str(pid), "0", "1")
    return Taken(whole, whole)


def by_calls(pid: int, program: str) -> Taken:
    threads = planning.default_threads(planning.kernel_helps(False))
    options = ["-t", str(threads), *(["-m"] if planning.kernel_shares() else [])]
    output, whole = run(program, *options, str(pid), "1", text=cut(pid, threads))
    result = json.loads(output)
    assert result["not_moved"] == 0, result
    return Taken(result["seconds"], whole)


def cut(pid: int, threads: int) -> str:
    """Write the windows in which `move` moves what is on node 0, one on a line."""
    plan = planning.make_plan("0", "1")
    lines = []
    with Process(pid) as process:
        resident, hugetlb = process.resident()
        limit = window_bytes(resident, threads)
        there = spans(process.mappings(hugetlb > 0), plan.moving, process.can_scan())
        for window in windows(process, there, lambda: limit, plan.grain):
            parts = (f"{start:x}:{end:x}:{window.page_size}" for start, end in window.parts)
            lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"


def on_node(process: Process, node: int) -> int:
    return bytes_by_node(process.numa_maps(), (node,))[node]


def measure(kind: str, size: int, way: Callable[[int], Taken]) -> Taken:
    """Let a process have `size` MB, and move them in one way."""
    with victims.Victim(f"{kind}={size}") as victim:
        taken = way(victim.pid)
        with Process(victim.pid) as moved:
            assert on_node(moved, 1) >= size * MB, "not all has moved"
    return taken


def main() -> int:
    """Measure each kind; the exit status."""
    victims.program, program, size, *kinds = sys.argv[1:]
    ways: dict[str, Callable[[int], Taken]] = {
        "move": by_move,
        "migratepages": by_migratepages,
        "move_pages": lambda pid: by_calls(pid, program),
    }
    print(f"TAP version 13\n1..{2 * len(kinds)}")
    failed = number = 0
    for kind in kinds:
        found = {}
        measure(kind, SMALL_MB, by_move)
        for name, way in ways.items():
            found[name] = measure(kind, int(size), way)
            line = {"kind": kind, "mb": int(size), "way": name, **vars(found[name])}
            print(f"# {json.dumps(line)}", flush=True)
        for other, most in (("migratepages", 1.0), ("move_pages", MOST_BEHIND)):
            number += 1
            ratio = found["move"].seconds / found[other].seconds
            failed += ratio > most
            result = "not ok" if ratio > most else "ok"
            what = f"{kind}: at most {most} times as long as {other}"
            print(f"# {ratio:.3f} times as long\n{result} {number} - {what}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
