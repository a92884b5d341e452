# SPDX-License-Identifier: GPL-2.0-only
"""What a suite is, and what it tests."""

from collections.abc import Callable
from dataclasses import dataclass

from pagehaul.kernel import bases
from pagehaul.kernel.bases import Base
from pagehaul.suites.outcomes import Outcome

# What `kernels` of a suite says for the variant of our kernel that is tested.
OURS = "ours"


@dataclass(frozen=True)
class Subject:
    """What a suite is to test: a variant of our kernel for a base, None for the default one.

    suite is the name of the suite, for its logs. short asks for the short form of the suite.
    """

    suite: str
    ours: str = "pagehaul"
    base: Base | None = None
    short: bool = False

    @property
    def alone(self) -> bool:
        """Whether our kernel is tested without the unmodified one beside it.

        The short form does so on every base but the default one: there it is to show that the same
        series does the same, and another kernel would take longer than all of its tests.
        """
        return self.short and self.base is not None and self.base.name != bases.DEFAULT


@dataclass(frozen=True)
class Suite:
    """A suite of tests.

    Suites begin in the order of `place`: what is quick to fail comes first. One of_variants can
    test another variant of our kernel than `pagehaul`. One on_request runs only when it is named.
    One elsewhere is in the short form of every base but the default one, too. One that boots has
    guests, with these kernels of its base. left_out is what its short form leaves out, in words; ""
    if nothing. One that is alone has guests that get no CPU in time beside others: it runs last.
    """

    name: str
    place: int
    work: Callable[[Subject], list[Outcome]]
    of_variants: bool = False
    on_request: bool = False
    elsewhere: bool = False
    boots: bool = True
    kernels: tuple[str, ...] = (OURS, "vanilla")
    left_out: str = ""
    alone: bool = False

    def __call__(
        self, ours: str = "pagehaul", base: Base | None = None, *, short: bool = False
    ) -> list[Outcome]:
        """Run it, and return how each test ended."""
        return self.work(Subject(self.name, ours, base, short))

    def needs(self, subject: Subject) -> list[str]:
        """Return the variants of the kernels of its base that it boots."""
        if not self.boots:
            return []
        names = [subject.ours if name == OURS else name for name in self.kernels]
        return [name for name in names if name != "vanilla" or not subject.alone]
