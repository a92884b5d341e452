# SPDX-License-Identifier: GPL-2.0-only
"""Compound pages kept compound in the per-CPU lists: the tables of Yoo, 2025.

Base pages faulted in and freed (pft), and a compiler at work (kernbench), each with three choices
of sizes for transparent huge pages, on kernels that differ in CONFIG_PCP_KEEP_COMPOUND only.
"""

from pagehaul.bench.cell import Cell, Load, Shape, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.paths import cache_dir

KERNELS = ("pagehaul", "pcp-compound")

THREADS = (1, 3, 5, 7, 12, 18, 24)
THREADS_PER_CPU = 2

# Sizes in KiB by what they are called; the kernel tries the largest first.
SIZES = {
    "2MB-32kB-16kB": (2048, 32, 16),
    "32kB-16kB": (32, 16),
    "16kB": (16,),
}

QUICK_MB = 64
FULL_MB = 192
ICOUNT_MB = 32

# What kernbench compiles, in the tree of the kernel: always the same, and quickly done.
SOURCES = (
    "lib/rbtree.c",
    "lib/bitmap.c",
    "lib/sort.c",
    "lib/string.c",
    "lib/hexdump.c",
    "lib/kobject.c",
)
QUICK_SOURCES = 2


def commands_file(quick: bool) -> str:
    """Return the file of the commands of kernbench."""
    return str(cache_dir() / f"kernbench{'-quick' if quick else ''}.commands")


def sources(quick: bool) -> tuple[str, ...]:
    """Return what is compiled."""
    return SOURCES[:QUICK_SOURCES] if quick else SOURCES


def _pft(size: Size) -> tuple[Cell, ...]:
    shape = Shape(4, (QUICK_MB if size.quick else FULL_MB) * 256)
    counts = [count for count in THREADS if count <= THREADS_PER_CPU * size.cpus]
    return tuple(
        Cell(shape, kernel, "faults", count, condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for count in counts
        for kernel in KERNELS
    )


def _path_length(size: Size) -> tuple[Cell, ...]:
    del size
    shape = Shape(4, ICOUNT_MB * 256)
    return tuple(
        Cell(shape, kernel, "faults", condition=name, load=Load("pft", thp=thp))
        for name, thp in SIZES.items()
        for kernel in KERNELS
    )


def _kernbench(size: Size) -> tuple[Cell, ...]:
    shape = Shape(4, len(sources(size.quick)))
    file = commands_file(size.quick)
    return tuple(
        Cell(
            shape,
            kernel,
            "faults",
            size.cpus,
            condition=name,
            load=Load("compile", thp=thp, commands=file),
        )
        for name, thp in SIZES.items()
        for kernel in KERNELS
    )


PFT = Experiment(
    "pft",
    "Page faults with compound pages kept in the per-CPU lists",
    "faults",
    _pft,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    quick_cpus=(4,),
)
PFT_PATH_LENGTH = Experiment(
    "pft-path-length",
    "Instructions for each page faulted in and freed",
    "fault-icount",
    _path_length,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
)
KERNBENCH = Experiment(
    "kernbench",
    "Compiling with compound pages kept in the per-CPU lists",
    "faults",
    _kernbench,
    guest_only=True,
    on_request=True,
    kernels=("pcp-compound",),
    quick_cpus=(2,),
)
