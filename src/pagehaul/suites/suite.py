# SPDX-License-Identifier: GPL-2.0-only
"""What a suite is, and what it tests."""

from collections.abc import Callable
from dataclasses import dataclass

from pagehaul.kernel.bases import Base
from pagehaul.suites.outcomes import Outcome


@dataclass(frozen=True)
class Subject:
    """What a suite is to test: a variant of our kernel for a base, None for the default one.

    suite is the name of the suite, for its logs. If alone, the unmodified kernel is neither built
    nor tested.
    """

    suite: str
    ours: str = "pagehaul"
    base: Base | None = None
    alone: bool = False


@dataclass(frozen=True)
class Suite:
    """A suite of tests.

    Suites run in the order of `place`: what is quick to fail comes first. One of_variants can test
    another variant of our kernel than `pagehaul`. One on_request runs only when it is named. One
    elsewhere runs on every base but the default one, too, when nobody says on which: enough to see
    that the same series does the same there. Beside the unmodified kernel it would take a kernel
    more, which is the longest part of it, so that our kernel is tested alone. One that boots needs
    a kernel that is built: where time is short, it is left out, on the other bases first.
    """

    name: str
    place: int
    work: Callable[[Subject], list[Outcome]]
    of_variants: bool = False
    on_request: bool = False
    elsewhere: bool = False
    boots: bool = True

    def __call__(
        self, ours: str = "pagehaul", base: Base | None = None, *, alone: bool = False
    ) -> list[Outcome]:
        """Run it, and return how each test ended."""
        return self.work(Subject(self.name, ours, base, alone))
