# SPDX-License-Identifier: GPL-2.0-only
"""Means of repeated measurements, and whether two of them differ by more than chance."""

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

# Student's t for 95%, two-sided, by degrees of freedom; what is between is that of the lower one.
_T95 = {
    **{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262},
    **{10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980},
}


def t95(freedom: float) -> float:
    """Return Student's t for 95%; never too small."""
    if freedom < 1:
        return math.inf
    return _T95[max(known for known in _T95 if known <= freedom)]


def interval(values: Sequence[float]) -> float:
    """Return half of the width of the 95% confidence interval of the mean."""
    if len(values) < 2:
        return math.inf
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def differ(left: Sequence[float], right: Sequence[float]) -> bool:
    """Whether the means differ, by Welch's test, at 95%."""
    if len(left) < 2 or len(right) < 2:
        return False
    parts = [statistics.variance(values) / len(values) for values in (left, right)]
    total = sum(parts)
    distance = abs(statistics.fmean(left) - statistics.fmean(right))
    if total == 0:
        return distance > 0
    degrees = [
        part * part / (len(values) - 1) for part, values in zip(parts, (left, right), strict=True)
    ]
    freedom = total * total / sum(degrees)
    return distance > t95(freedom) * math.sqrt(total)


def medians(moves: Sequence[tuple[float, ...]]) -> Iterator[float]:
    """Return the median of each figure over some moves."""
    return (float(statistics.median(figures)) for figures in zip(*moves, strict=True))


def at_most(counts: Mapping[int, int], percent: float) -> int:
    """Return the figure that so much of what is counted has at most; counts are by figure."""
    sums = list(accumulate(count for _, count in sorted(counts.items())))
    return sorted(counts)[bisect_left(sums, sums[-1] * percent / 100)]
