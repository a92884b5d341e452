# SPDX-License-Identifier: GPL-2.0-only
"""How often things are measured."""

from dataclasses import dataclass

from pagehaul.bench.cell import Cell
from pagehaul.bench.known import MEASURES


@dataclass(frozen=True)
class Effort:
    """How often things are measured.

    All kernels are booted together `boots` times. In a boot every cell is measured in `rounds`
    rounds, which go through all kernels and methods of a shape, so that they see the same noise. A
    cell moves about target_mb MiB a boot, in at least min_reps and at most max_reps repetitions,
    which go there and back where that can be, unless each move counts. A repetition goes on until
    its moves have taken at_least_us microseconds. timeout is for one boot, in seconds.
    """

    boots: int
    rounds: int
    target_mb: int
    min_reps: int
    max_reps: int
    timeout: float
    each_counts: bool = False
    at_least_us: int = 0

    def ways(self, cell: Cell) -> int:
        """Return how many moves make one repetition of a cell at least."""
        return 1 if self.each_counts else cell.ways

    def reps(self, cell: Cell) -> int:
        """Return how many repetitions of a cell make a boot."""
        wanted = (self.target_mb << 20) // cell.shape.bytes
        return min(self.max_reps, max(self.min_reps, wanted))

    def least_us(self, cell: Cell) -> int:
        """Return how long the moves of a repetition take at least, 0 for a single one."""
        if not self.at_least_us or not cell.by_calls:
            return 0
        asked = [measure.least_us for measure in MEASURES if measure.name in cell.asks]
        return min((us for us in asked if us is not None), default=self.at_least_us)
