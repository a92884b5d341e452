# SPDX-License-Identifier: GPL-2.0-only
"""How an experiment is told: its table, and the quantities of its pictures."""

from collections.abc import Callable
from dataclasses import dataclass

from pagehaul.bench.labels import Table
from pagehaul.bench.part import Part
from pagehaul.bench.quantity import Quantity


@dataclass(frozen=True)
class View:
    """A table, and what is drawn beside it; nothing is drawn without quantities.

    Figures of one that is apart are no ratios to the unmodified kernel's.
    """

    table: Callable[[Part], Table]
    quantities: tuple[Quantity, ...] = ()
    apart: bool = False
