# SPDX-License-Identifier: GPL-2.0-only
"""The suite of workloads: which scenes it plays, and that a failed one is a failed test."""

import subprocess
from pathlib import Path

from pagehaul.bench.cell import Scene
from pagehaul.suites import tap
from pagehaul.suites.all import workloads
from pagehaul.suites.outcomes import Status


def test_every_way_of_every_service_is_played_with_little_memory() -> None:
    scenes = [scene for each in workloads.scenes(4).values() for scene in each]
    assert len(scenes) == len(set(scenes))
    assert {scene.service for scene in scenes} == {
        *("redis", "memcached", "postgres"),
        *("threads", "gups", "bfs"),
    }
    ways = {"migratepages", "callers", "move", "cpuset", "offlining", "compaction"}
    assert {scene.way for scene in scenes} == ways | {"demotion", "promotion", "balancing"}
    assert max(scene.mb for scene in scenes) <= 64
    assert any(scene.rate for scene in scenes) and any(scene.huge for scene in scenes)


def test_the_short_form_has_every_service_and_every_way() -> None:
    whole = [scene for each in workloads.scenes(4).values() for scene in each]
    short = [scene for each in workloads.scenes(4, short=True).values() for scene in each]
    assert set(short) < set(whole) and len(short) <= 22
    for what in ("service", "way", "name", "huge"):
        assert {getattr(each, what) for each in short} == {getattr(each, what) for each in whole}
    assert {each for each in short if each.service == "redis"} == {
        each for each in whole if each.service == "redis"
    }


def test_a_scene_that_fails_is_a_test_that_fails(tmp_path: Path) -> None:
    program = tmp_path / "workbench"
    program.write_text('#!/bin/sh\necho "of $2"\n[ "$2" != --service=threads ]\n')
    program.chmod(0o755)
    scenes = [Scene("drain", service, "move", 8) for service in ("redis", "threads")]
    script = workloads.script(str(program), scenes).replace("/run/said", str(tmp_path / "said"))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    found = tap.parse(done.stdout)
    assert [each.status for each in found] == [Status.PASSED, Status.FAILED]
    assert "of --service=threads" in found[1].why
