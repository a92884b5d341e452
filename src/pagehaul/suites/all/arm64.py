# SPDX-License-Identifier: GPL-2.0-only
"""Another architecture, base pages of 4 and 64 KB, a driver for a DMA device.

It installs a cross compiler and builds two more kernels, which would take as long as half of the
rest, so that it runs on request only.
"""

from pagehaul.guest.boards.arm64 import CPUS
from pagehaul.guest.machine import Guest
from pagehaul.kernel import build
from pagehaul.kernel.arches import ARM64, ARM64_64K, Arch
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import Program, flat, run_kunit, run_programs
from pagehaul.suites.suite import Subject, Suite

# The lists of the status tests have 6,144 pages, and some are mapped beside as many others: a node
# needs room for that with pages of 64 KB.
_GUEST = Guest(cpus=CPUS, nodes=2, memory_mb=4096)

# Not the kinds on disks, for the guest has nothing that makes file systems, nor pages of 1 GB,
# which need larger nodes. Memory that was there at boot does not go offline on arm64. Compaction
# works from page block to page block: with pages of 64 KB these have 512 MB, and it finds nothing
# to do in nodes of so few.
_KINDS = "-x ext4,ext4_unmapped,ext4_read_only,xfs,xfs_64k,xfs_unmapped,hugetlb_1g"
_WAYS = {
    ARM64: "-w move_pages,mbind,migrate_pages,cpuset,compaction",
    ARM64_64K: "-w move_pages,mbind,migrate_pages,cpuset",
}
_MODES = "off batch threads parallel"

# What moves by the channels of the board: MiB in each test, and how often dcbm comes and goes.
_ENGINE = "-d mm/migrate_copy/dcbm.ko -m mm/migrate_copy/mtcopy.ko -b 128 -c 20"


def _programs(arch: Arch) -> dict[str, tuple[Program, ...]]:
    """Return what runs in each guest."""
    engine = f"cd /lib/modules/*/kernel && migrate_engine {_ENGINE}"
    return {
        "migration": (
            Program("migrate_errors calls", "migrate_errors calls"),
            Program("migrate_errors knobs", "migrate_errors knobs"),
            Program("migrate_status", f"migrate_status {_MODES}"),
            Program("migrate_content", f"migrate_content {_KINDS} {_WAYS[arch]} {_MODES}"),
        ),
        "dma": (Program("migrate_engine", engine),),
    }


def _work(subject: Subject) -> list[Outcome]:
    """Check copies by CPUs and by DMA channels, with each size of base pages."""
    outcomes: list[Outcome] = []
    for arch in _WAYS:
        kernel = build.build("pagehaul", subject.base, arch=arch)
        outcomes += run_kunit(kernel, _GUEST)
        for name, programs in _programs(arch).items():
            outcomes += flat(run_programs(name, kernel, _GUEST, programs), kernel)
    return outcomes


SUITE = Suite("arm64", 240, _work, on_request=True, kernels=())
