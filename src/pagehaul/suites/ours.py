# SPDX-License-Identifier: GPL-2.0-only
"""Our own test programs: which runs on which kernel, with which words, in which guest."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

from pagehaul.guest import cprogs
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel import build, built
from pagehaul.kernel.built import Kernel
from pagehaul.suites.outcomes import Outcome, prefixed
from pagehaul.suites.programs import GUEST, TIMEOUT_S, Program, flat, run_programs
from pagehaul.suites.suite import Subject
from pagehaul.suites.together import all_at_once

# A kernel, and the arguments with which a test program runs on it in one guest, one after another.
Run = tuple[str, Sequence[str]]

# The modes of the copy. Where those of ours take much longer than a guest takes to boot, each half
# of them gets one.
OUR_MODES = ("off", "batch", "threads", "parallel")
_PLAIN: Run = ("vanilla", ["plain"])
ALL_MODES: tuple[Run, ...] = (
    ("pagehaul", ["threads parallel"]),
    ("pagehaul", ["off batch"]),
    _PLAIN,
)
ALL_IN_ONE: tuple[Run, ...] = (("pagehaul", [" ".join(OUR_MODES)]), _PLAIN)

# What words may contain: the options by which programs get our modules, and one of these.
_MODULES = "@MODULES@"
_MTCOPY = "@MTCOPY@"


@dataclass(frozen=True)
class Part:
    """One of our programs, in a guest for each of `runs`, several at once where there is room.

    The short form has the runs in `short` instead, the same ones if that is None.
    A part that is alone has one guest at a time, beside no other one: for tests in which a helper
    has to be there in time, and a CPU that is away for another guest is not. suite names its logs
    where a suite has several parts, and prefix is what its tests have before their names. With
    variants it is left out on other kernels of ours. timeout_s is that of each program.
    """

    program: str
    runs: Sequence[Run] = ALL_MODES
    guest: Guest = GUEST
    short: Sequence[Run] | None = None
    alone: bool = False
    suite: str = ""
    prefix: str = ""
    variants: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class OurPrograms:
    """The work of a suite whose tests are programs of ours; packages are those of Debian."""

    parts: tuple[Part, ...]
    packages: tuple[str, ...] = ()

    def __call__(self, subject: Subject) -> list[Outcome]:
        """Run all of them, one part after the other."""
        tools.require(*self.packages)
        parts = [each for each in self.parts if not each.variants or subject.ours in each.variants]
        return [outcome for part in parts for outcome in run(part, subject)]


def of(program: str, *runs: Run, alone: bool = False) -> OurPrograms:
    """Return the work of a suite of one program, in all modes unless its runs are given."""
    return OurPrograms((Part(program, runs or ALL_IN_ONE, alone=alone),))


def run(part: Part, subject: Subject) -> list[Outcome]:
    """Run a part, and return how each test ended.

    A variant that looks for mistakes of its own has the unmodified kernel not beside it.
    """
    alone = subject.alone or subject.ours in build.DEBUG_VARIANTS
    all_runs = part.runs if part.short is None or not subject.short else part.short
    runs = [each for each in all_runs if not (alone and each[0] == "vanilla")]
    ours = build.build(subject.ours, subject.base)
    kernels = {"pagehaul": ours}
    kernels |= {side: build.build(side, subject.base) for side, _ in runs if side == "vanilla"}
    directory = cprogs.selftests(ours.tree, "migrate_copy", [part.program])
    binary = shlex.quote(str(directory / part.program))
    of_kernel = Counter(side for side, _ in runs)
    suite = part.suite or subject.suite
    works = []
    for number, (side, words) in enumerate(runs, 1):
        name = suite if of_kernel[side] == 1 else f"{suite}-{number}"
        programs = [
            Program(
                part.program if len(words) == 1 else f"{part.program} {word}",
                command,
                part.timeout_s,
            )
            for word in words
            for command in [f"{binary} {_filled(word, ours)}"]
        ]
        guest = partial(flat_programs, name, kernels[side], part.guest, programs)
        works.append(partial(guest, alone=part.alone))
    return prefixed(part.prefix, all_at_once(works, ours))


def _filled(word: str, kernel: Kernel) -> str:
    """Return the words of a run with the paths of a kernel's modules."""
    word = word.replace(_MODULES, shlex.join(built.module_options(kernel)))
    return word.replace(_MTCOPY, shlex.quote(str(built.module(kernel, "mtcopy"))))


def flat_programs(
    suite: str,
    kernel: Kernel,
    guest: Guest,
    programs: Sequence[Program],
    stop: Event,
    *,
    alone: bool = False,
) -> list[Outcome]:
    """Run programs in a guest until another thread sets `stop`; return their tests in one list."""
    return flat(run_programs(suite, kernel, guest, programs, stop, alone=alone), kernel)
