# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own tests: the same result of each on both kernels.

An experiment's kernel is compared with the same kernel without the experiment.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from threading import Event

from pagehaul.guest import cprogs
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.kernel.built import Kernel
from pagehaul.suites.both import compare_runs, named
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import CPUS, GUEST, Program, run_programs
from pagehaul.suites.suite import Subject, Suite
from pagehaul.suites.together import at_once

# The kernel's own tests that concern migration, and how they are run. These use all CPUs but one
# for a certain time: `migration` moves a page to and fro for 20 seconds in each of its tests while
# others read it, and skips them on fewer than 3 CPUs. No more of them than the host can run at
# once: a CPU that is away while it handles a fault keeps the page in use, and hundreds of moves in
# a row fail, on any kernel.
_MM_TIMED = {name: f"./{name}" for name in ("migration", "compaction_test")}
# One test for base pages and one for huge ones; each takes 20 seconds, alone, on each kernel.
# hugetlb pages are moved while they are in use in the suite `pinned`, too.
_FEW = ("private_anon", "shared_anon_thp")
_MM_TIMED_SHORT = {
    **_MM_TIMED,
    "migration": shlex.join(["./migration", *(word for name in _FEW for word in ("-t", name))]),
}
_MM_TIMED_GUEST = replace(GUEST, cpus=min(CPUS, max(3, (os.cpu_count() or 1) + 1)), topology=None)
# These are on one CPU, so that both kernels can have theirs at once. To split the page cache, one
# of them needs a file system with large folios.
_MAKE_XFS = (
    "truncate -s 512M /run/xfs.img && mkfs.xfs -q /run/xfs.img && mkdir -p /run/xfs && "
    "mount -o loop /run/xfs.img /run/xfs"
)
# It asks for huge pages, and splits them. khugepaged looks every ten seconds and would join them,
# and the program would give up: let it sleep for longer than the program runs.
_NO_KHUGEPAGED = (
    "echo 3600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"
)
_MM_SINGLE = {
    "ksm_functional_tests": "./ksm_functional_tests",
    "split_huge_page_test": f"{_MAKE_XFS} && {_NO_KHUGEPAGED} && ./split_huge_page_test /run/xfs",
    "mlock2-tests": "./mlock2-tests",
    "hugetlb-soft-offline": "./hugetlb-soft-offline",
}


def _work(subject: Subject) -> list[Outcome]:
    tools.require("xfsprogs")
    reference = "debug" if subject.ours == "debug-pcp-compound" else "vanilla"
    kernels = [build.build(variant, subject.base) for variant in (reference, subject.ours)]
    # Both kernels get the same programs.
    names = [*_MM_TIMED, *_MM_SINGLE]
    directory = cprogs.selftests(kernels[0].tree, "mm", names)

    def run(
        group: Mapping[str, str], guest: Guest, kernel: Kernel, stop: Event | None
    ) -> dict[str, Outcome]:
        # They look for their files where they are, and for free huge pages.
        prepare = f"cd {shlex.quote(str(directory))} && echo 64 > /proc/sys/vm/nr_hugepages"
        programs = [Program(name, f"{prepare} && {command}") for name, command in group.items()]
        alone = guest is _MM_TIMED_GUEST
        reported = run_programs("mm-selftests", kernel, guest, programs, stop, alone=alone)
        return {
            name: outcome
            for label, tests in reported.items()
            # Races of others, which only one of the kernels looks for, are no result of a test.
            if label in group
            for name, outcome in named(label, tests)
        }

    def both_in_turn() -> list[dict[str, Outcome]]:
        timed = _MM_TIMED_SHORT if subject.short else _MM_TIMED
        return [run(timed, _MM_TIMED_GUEST, kernel, None) for kernel in kernels]

    def both_at_once() -> list[dict[str, Outcome]]:
        works = [partial(run, _MM_SINGLE, GUEST, kernel) for kernel in kernels]
        return at_once(works, len(works))

    return compare_runs(both_in_turn) + compare_runs(both_at_once)


SUITE = Suite(
    "mm-selftests",
    190,
    _work,
    of_variants=True,
    left_out=f"of the program `migration` all but {', '.join(_FEW)}",
    alone=True,
)
