# SPDX-License-Identifier: GPL-2.0-only
"""Which measures there are: one for each module of bench/measures/."""

import importlib
import pkgutil
from typing import Any

from pagehaul.bench import measures
from pagehaul.bench.measure import Measure


def _found() -> tuple[Measure[Any], ...]:
    path, prefix = measures.__path__, f"{measures.__name__}."
    names = [each.name for each in pkgutil.iter_modules(path, prefix)]
    found: list[Measure[Any]] = [importlib.import_module(name).MEASURE for name in names]
    return tuple(sorted(found, key=lambda measure: measure.place))


# From the lowest place to the highest.
MEASURES = _found()
