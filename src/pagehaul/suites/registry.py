# SPDX-License-Identifier: GPL-2.0-only
"""Which suites there are."""

from functools import partial
from typing import Protocol

from pagehaul.kernel.bases import Base
from pagehaul.suites import (
    arm64,
    figures,
    fuzz,
    guests,
    lint,
    repeatable,
    topology,
    torture,
    unit,
)
from pagehaul.suites.outcomes import Outcome


class Suite(Protocol):
    """Runs the tests of a suite on the kernels of a base."""

    def __call__(self, *, base: Base) -> list[Outcome]:
        """Return how each test ended."""


class VariantSuite(Protocol):
    """Runs the tests of a suite on a variant of our kernel."""

    def __call__(self, ours: str, *, base: Base) -> list[Outcome]:
        """Return how each test ended on the kernel of the variant `ours`."""


# In the order in which they run: what is quick to fail comes first. Those of OF_VARIANTS take the
# variant of our kernel that they are to test.
SUITES: dict[str, Suite] = {
    "unit": unit.run,
    "lint": lint.run,
    "compile": lint.compiled,
    "kunit": guests.kunit,
    "errors": guests.errors,
    "status": guests.status,
    "events": guests.events,
    "content": guests.content,
    "pinned": guests.pinned,
    "boundaries": guests.boundaries,
    "contig": guests.contig,
    "mlock": guests.mlock,
    "windows": guests.windows,
    "charge": guests.charge,
    "engines": guests.engines,
    "fuzz": fuzz.run,
    "topology": topology.run,
    "move": guests.move,
    "mm-selftests": guests.mm_selftests,
    "repeatable": repeatable.run,
    "bench-smoke": figures.smoke,
    "path-length": figures.path_length,
    "torture": torture.run,
    "arm64": arm64.run,
}

# These can test another variant of our kernel. `charge` compares times, most of which a kernel that
# looks for mistakes spends on that.
OF_VARIANTS: dict[str, VariantSuite] = {
    "kunit": guests.kunit,
    "errors": guests.errors,
    "status": guests.status,
    "events": guests.events,
    "content": guests.content,
    "pinned": guests.pinned,
    "boundaries": guests.boundaries,
    "contig": guests.contig,
    "mlock": guests.mlock,
    "windows": guests.windows,
    "engines": guests.engines,
    "fuzz": fuzz.run,
    "topology": topology.run,
    "move": guests.move,
    "mm-selftests": guests.mm_selftests,
    "torture": torture.run,
}

# What runs on every base but the default one, when nobody says on which: enough to see that the
# same series does the same there. Beside the unmodified kernel it would take a kernel more, which
# is the longest part of it.
SHORT: dict[str, Suite] = {
    "compile": lint.compiled,
    "kunit": guests.kunit,
    "errors": partial(guests.errors, alone=True),
    "status": partial(guests.status, alone=True),
    "move": partial(guests.move, alone=True),
}

# Run when they are asked for only: arm64 installs a cross compiler and builds two more kernels,
# which would take as long as half of the rest; windows needs a kernel more; lint has all that
# compile has.
ON_REQUEST = ("windows", "arm64", "compile")
