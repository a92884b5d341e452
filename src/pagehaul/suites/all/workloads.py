# SPDX-License-Identifier: GPL-2.0-only
"""Every scene of the workloads, with little memory: it plays to its end, and no value is wrong."""

import shlex
from dataclasses import replace
from functools import partial

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.cell import TIERING, Scene, Size
from pagehaul.bench.machines.kinds import SERVING, TIERED, Kind
from pagehaul.bench.machines.setup import programs
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.suites.ours import flat_programs
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST, Program
from pagehaul.suites.suite import OURS, Subject, Suite
from pagehaul.suites.together import all_at_once

# MiB, which are few, and requests a second that an emulated server can answer.
_MB = 64
_PART_MB = 16
_FAST_MB = 48
_RATE = 500
_QUICK = ("--quiet-ms=20", "--window-ms=100")

# The kernel leaves huge pages that processes share while one of them, on an emulated CPU that has
# no real one, is in a fault: an unmodified one does, too. All others move at once.
_TRIES = ("--tries=50",)

# So long all scenes of a kind may take: one of them may hang.
_TIMEOUT_S = 2700.0

# What the short form has one service for.
_WHOLE_SERVICE = "redis"
_LEFT_OUT = ("migratepages", "callers")

_WORKLOADS = [each for name, each in EXPERIMENTS.items() if name.startswith("workload-")]

# Its arguments are a name and a command, which has so many seconds.
_TEST = """\
n=0
try() {
    n=$((n + 1)); name=$1; shift
    if timeout -k 10 300 "$@" > /run/said 2>&1; then
        echo "ok $n $name"
    else
        sed 's/^/# /' /run/said
        echo "not ok $n $name"
    fi
}
"""


def scenes(cpus: int, *, short: bool = False) -> dict[Kind, list[Scene]]:
    """Return the scenes of all workloads, each once, and one of each service in an open loop.

    The short form has all of one service, and those of the others that `pagehaul move` plays, or
    the kernel itself.
    """
    found: dict[Kind, dict[Scene, None]] = {}
    open_loops: set[str] = set()
    for experiment in _WORKLOADS:
        kind = SERVING if experiment.machine.shape is SERVING.shape else TIERED
        for cell in experiment.cells(Size(True, cpus, 0)):
            scene = cell.scene
            if scene is None or (scene.rate and scene.service in open_loops):
                continue
            other = scene.service != _WHOLE_SERVICE
            if short and other and (scene.rate or scene.way in _LEFT_OUT):
                continue
            if scene.rate:
                open_loops.add(scene.service)
            found.setdefault(kind, {})[_little(scene)] = None
    return {kind: list(each) for kind, each in found.items()}


def _little(scene: Scene) -> Scene:
    return replace(
        scene,
        mb=min(scene.mb, _MB),
        rate=min(scene.rate, _RATE),
        neighbour_mb=min(scene.neighbour_mb, _MB),
        amount_mb=min(scene.amount_mb, _PART_MB),
        fast_mb=min(scene.fast_mb, _FAST_MB),
        slow_mb=min(scene.slow_mb, _PART_MB),
        balancing=TIERING,
        named=False,
    )


def _name(scene: Scene) -> str:
    words = [scene.service, *(["in huge pages"] if scene.huge else []), scene.name, scene.way]
    return " ".join([*words, "open loop" if scene.rate else "closed loop"])


def script(workbench: str, wanted: list[Scene]) -> str:
    """Return a shell script that plays scenes, and prints TAP."""
    tests = [
        shlex.join(
            [
                "try",
                _name(scene),
                workbench,
                *scene.words(),
                *_QUICK,
                *(_TRIES if scene.huge else ()),
            ]
        )
        for scene in wanted
    ]
    return f"{_TEST}echo 1..{len(tests)}\n" + "\n".join(tests)


def _work(subject: Subject) -> list[Outcome]:
    tools.require(*(name for each in _WORKLOADS for name in each.packages))
    kernel = build.build(subject.ours, subject.base)
    workbench = str(programs().with_name("workbench"))
    works = [
        partial(
            flat_programs,
            f"{subject.suite}-{kind.name}",
            kernel,
            _guest(kind),
            [Program(kind.name, script(workbench, wanted), _TIMEOUT_S)],
        )
        for kind, wanted in scenes(GUEST.cpus, short=subject.short).items()
    ]
    return all_at_once(works, kernel)


def _guest(kind: Kind) -> Guest:
    return GUEST if kind is SERVING else kind.shape(replace(GUEST, append=()), GUEST.cpus)


SUITE = Suite(
    "workloads",
    205,
    _work,
    kernels=(OURS,),
    left_out=f"{', '.join(_LEFT_OUT)} and the open loop of services other than {_WHOLE_SERVICE}",
)
