# SPDX-License-Identifier: GPL-2.0-only
"""How an experiment is told: its table, and the quantities of its pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagehaul.bench.labels import Table
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Quantity
from pagehaul.bench.row import Row


@dataclass(frozen=True)
class Course:
    """A figure over time: a title, and pairs of ms and the figure, of which there may be none."""

    title: str
    unit: str
    of: Callable[[Row], Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class View:
    """A table, and what is drawn beside it; nothing is drawn without quantities.

    Figures of one that is apart are no ratios to the unmodified kernel's. With a course, what went
    on in each row is drawn over time.
    """

    table: Callable[[Part], Table]
    quantities: tuple[Quantity, ...] = ()
    apart: bool = False
    course: Course | None = None
