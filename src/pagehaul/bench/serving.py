# SPDX-License-Identifier: GPL-2.0-only
"""Cells of servers that serve while memory moves: what differs is the service, and the scene."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pagehaul.bench.cell import (
    BALANCING,
    PAGE_KB,
    PMD_KB,
    PROGRAMS,
    Cell,
    Scene,
    Shape,
    Size,
)
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.kinds import SERVING, Kind
from pagehaul.bench.measures.serving import MEASURE
from pagehaul.move.planning import default_threads

# Packages of Debian: a server of Redis is among the tools, which start none where they are
# installed.
PACKAGES = ("redis-tools", "numactl")

# MiB of values, and base pages that the server has with all that it needs to find them.
MB = 480
PAGES = 131072
_BASE = Shape(PAGE_KB, PAGES)

# MiB that change their tier: less than either half of the values, the hot one and the cold one.
TIER_MB = 200

# MiB of huge pages that another program wants. How much moves for that, the kernel decides.
COMPACTED_MB = 128

# As many as an administrator would start without a thought.
PLAIN_CALLERS = 4

# Services of several processes that map the same memory, which only `pagehaul move --all` moves.
SHARED = ("postgres",)

# How requests come: the next one after an answer, or so many a second whatever the answers.
CLOSED = "closed loop"
LOOPS = {CLOSED: 0, "open loop": 20_000}

# What makes the cells of an experiment.
Cells = Callable[[Size], tuple[Cell, ...]]


def experiment(
    name: str,
    title: str,
    cells: Cells,
    place: int,
    packages: tuple[str, ...] = PACKAGES,
    kind: Kind = SERVING,
) -> Experiment:
    """Return an experiment with a server, Redis unless said otherwise, on 8 and 16 CPUs."""
    return Experiment(
        name,
        title,
        kind,
        cells,
        place=place,
        packages=packages,
        guest_only=True,
        on_request=True,
        cpus=(8, 16),
        quick_cpus=(16,),
    )


def drain(service: str, mb: int = MB, *, huge: bool = False) -> Cells:
    """Return what makes the cells of a service whose own memory goes to another node.

    It has values of mb MiB, so many that it needs PAGES for them, or as much in hugetlb pages.
    """
    return _in_loops(Scene("drain", service, "migratepages", mb, huge=huge), _compared)


def evict(service: str, way: str) -> Cells:
    """Return what makes the cells of a service whose memory may no longer be where it is.

    way is "cpuset" or "offlining".
    """
    return _in_loops(Scene("drain", service, way, MB, named=True), _evicted)


def tiers(way: str) -> Cells:
    """Return what makes the cells of a program part of whose memory changes its tier.

    way is "demotion" or "promotion". Half of the CPUs have nothing to do, and nobody touches the
    half of the memory that is cold: what is touched now and then is hot for the kernel. Only busy
    threads get promotion: the kernel looks at the memory of who runs at a tick, and all steps of
    an open loop may lie between ticks.
    """
    loops = LOOPS if way == "demotion" else {CLOSED: LOOPS[CLOSED]}

    def cells(size: Size) -> tuple[Cell, ...]:
        threads = max(1, size.cpus // 2)
        scene = Scene(
            "drain", "threads", way, MB, named=True, amount_mb=TIER_MB, threads=threads, cold=0
        )
        return _in_loops(scene, _evicted, loops)(size)

    return cells


def balanced(scene: Scene) -> Cells:
    """Return what makes the cells of a program while the kernel balances its memory.

    The first one, which others are compared with, is that of the unmodified kernel in the mode for
    tiers, the second that of the same without balancing.
    """

    def cells(size: Size) -> tuple[Cell, ...]:
        program = scene.service in PROGRAMS or scene.name == "promoter"
        threads = max(1, size.cpus // 2) if program else 0
        mine = replace(scene, way=BALANCING, named=True, threads=threads)
        shape = Shape(PAGE_KB, scene.mb * 1024 // PAGE_KB)
        found = (
            Cell(shape, "vanilla", "serial", scene=mine),
            Cell(shape, "vanilla", "serial", scene=replace(mine, balancing=0)),
            Cell(shape, "pagehaul", "serial", scene=mine),
            Cell(shape, "pagehaul", "parallel", size.cpus, scene=mine),
        )
        return tuple(MEASURE.ask(replace(cell, condition=CLOSED)) for cell in found)

    return cells


def compaction(service: str) -> Cells:
    """Return what makes the cells of a service while another program wants huge pages."""
    scene = Scene("drain", service, "compaction", MB, named=True, amount_mb=COMPACTED_MB)
    return _in_loops(scene, _compacted)


def _in_loops(
    scene: Scene,
    make: Callable[[Scene, Size], tuple[Cell, ...]],
    loops: Mapping[str, int] = LOOPS,
) -> Cells:
    """Return what makes the cells of a scene for each way in which requests come."""

    def cells(size: Size) -> tuple[Cell, ...]:
        return tuple(
            MEASURE.ask(replace(cell, condition=loop))
            for loop, rate in loops.items()
            for cell in make(replace(scene, rate=rate), size)
        )

    return cells


def _half(size: Size) -> dict[str, str]:
    """Let as many help as there are CPUs besides those that the server may need.

    With two nodes these are the CPUs of the other one.
    """
    return {"max_helpers": str(max(1, size.cpus // 2))}


def _evicted(scene: Scene, size: Size) -> tuple[Cell, ...]:
    """Return cells that differ in the kernel alone."""
    return _with_kernels(scene, size, _half(size))


def _compacted(scene: Scene, size: Size) -> tuple[Cell, ...]:
    """Return the same cells, in the last of which compaction has helpers, too."""
    return _with_kernels(scene, size, {"reasons": "all"})


def _with_kernels(scene: Scene, size: Size, settings: Mapping[str, str]) -> tuple[Cell, ...]:
    """Return cells of both kernels, the last of them with settings."""
    shape = Shape(PAGE_KB, scene.amount_mb * 1024 // PAGE_KB) if scene.amount_mb else _BASE
    return (
        Cell(shape, "vanilla", "serial", scene=scene),
        Cell(shape, "pagehaul", "serial", scene=scene),
        Cell(shape, "pagehaul", "parallel", size.cpus, scene=scene),
        Cell(shape, "pagehaul", "parallel", size.cpus, settings=settings, scene=scene),
    )


def _by_move(scene: Scene, size: Size) -> Scene:
    """Return a scene with the calls of `pagehaul move`, from as many callers as that has."""
    # What moves of a neighbour is its own.
    shared = scene.name == "drain" and scene.service in SHARED
    callers = default_threads(not shared, size.cpus)
    return replace(scene, way="move", callers=callers)


def _compared(scene: Scene, size: Size) -> tuple[Cell, ...]:
    """Return cells of all who move memory: migratepages, plain callers, and `pagehaul move`.

    Pagehaul's kernel helps the old program, too.
    """
    shape = Shape(PMD_KB, PAGES * PAGE_KB // PMD_KB, hugetlb=True) if scene.huge else _BASE
    callers = min(PLAIN_CALLERS, size.cpus)
    several = replace(scene, way="callers", callers=callers)
    ours = _by_move(scene, size)
    unchanged = replace(scene, named=True)
    # Where huge pages are shared, one of a file is unmapped at a time: others leave theirs.
    plain = () if scene.huge else (Cell(shape, "vanilla", "callers", callers, scene=several),)
    return (
        Cell(shape, "vanilla", "serial", scene=scene),
        *plain,
        Cell(shape, "pagehaul", "serial", scene=scene),
        Cell(shape, "pagehaul", "parallel", size.cpus, scene=ours),
        Cell(shape, "pagehaul", "parallel", size.cpus, scene=unchanged),
        Cell(shape, "pagehaul", "parallel", size.cpus, settings=_half(size), scene=ours),
        Cell(shape, "pagehaul", "parallel", size.cpus, settings=_half(size), scene=unchanged),
    )


def neighbour(service: str) -> Cells:
    """Return what makes the cells of a service beside one whose memory moves."""
    scene = Scene(
        "neighbour", service, "migratepages", NEIGHBOUR_SERVICE_MB, neighbour_mb=NEIGHBOUR_MB
    )
    return _in_loops(scene, _owners)


# MiB of the neighbour, which move, and of the values of the server, which stay.
NEIGHBOUR_MB = 1024
NEIGHBOUR_SERVICE_MB = 64


def _owners(scene: Scene, size: Size) -> tuple[Cell, ...]:
    """Return cells in which the neighbour moves its memory by CPUs of its own, and with help."""
    shape = Shape(PAGE_KB, NEIGHBOUR_MB * 1024 // PAGE_KB)
    several = sorted({min(PLAIN_CALLERS, size.cpus), size.cpus})
    own = [replace(scene, way="callers", callers=callers) for callers in several]
    ours = _by_move(scene, size)
    unchanged = replace(scene, named=True)
    return (
        Cell(shape, "vanilla", "serial", scene=scene),
        *(Cell(shape, "vanilla", "callers", each.callers, scene=each) for each in own),
        Cell(shape, "pagehaul", "serial", scene=scene),
        Cell(shape, "pagehaul", "parallel", size.cpus, scene=ours),
        Cell(shape, "pagehaul", "parallel", size.cpus, scene=unchanged),
        Cell(shape, "pagehaul", "parallel", size.cpus, settings=_half(size), scene=ours),
    )
