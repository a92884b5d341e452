# SPDX-License-Identifier: GPL-2.0-only
"""Progress, for people and for programs."""

import errno
import json
import time
from collections import Counter

import pytest

from pagehaul.move.bar import Bar
from pagehaul.move.outcome import Outcome
from pagehaul.move.progress import JsonLines, Progress


@pytest.mark.parametrize("kind", [Bar, JsonLines, Progress])
def test_nothing_goes_to_stdout_nor_to_what_is_no_terminal(
    kind: type[Progress], capsys: pytest.CaptureFixture[str]
) -> None:
    with kind() as shown:
        shown.begin(7, 4096)
        shown.settle(Outcome(moved=4096))
    written = capsys.readouterr()
    assert written.out == ""
    assert bool(written.err) == (kind is JsonLines)


def test_lines_of_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with JsonLines() as shown:
        shown.begin(7, 8192)
        for _ in range(100):
            now[0] += 0.01
            shown.settle(Outcome(moved=10, gone=1, left=Counter({errno.EBUSY: 2})))
        shown.begin(8, 100)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    events = [line["event"] for line in lines]
    assert events[0] == "process" and events[-2:] == ["process", "end"]
    assert events.count("moving") in (1, 2), "twice a second at most"
    assert lines[0] == {
        "event": "process",
        "seconds": 0.0,
        "pid": 7,
        "processes": 1,
        "resident_bytes": 8192,
        "moved_bytes": 0,
        "gone_bytes": 0,
        "left_bytes": 0,
    }
    last = lines[-1]
    assert (last["pid"], last["processes"], last["resident_bytes"]) == (8, 2, 8292)
    assert (last["moved_bytes"], last["gone_bytes"], last["left_bytes"]) == (1000, 100, 200)
    assert last["seconds"] == 1.0
