# SPDX-License-Identifier: GPL-2.0-only
"""What a table is made of: the rows of an experiment, measured with one machine model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagehaul.bench.row import Row


@dataclass(frozen=True)
class Part:
    """Rows of an experiment, its title, the kind of machine that it needs, and what it ran on."""

    experiment: str
    title: str
    kind: str
    rows: Sequence[Row]
    environment: Mapping[str, Any]
