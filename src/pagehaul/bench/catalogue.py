# SPDX-License-Identifier: GPL-2.0-only
"""Which experiments there are: one for each module of bench/experiments/."""

import importlib
import pkgutil

from pagehaul.bench import experiments
from pagehaul.bench.experiment import Experiment


def _found() -> list[Experiment]:
    path, prefix = experiments.__path__, f"{experiments.__name__}."
    names = [each.name for each in pkgutil.iter_modules(path, prefix)]
    found: list[Experiment] = [importlib.import_module(name).EXPERIMENT for name in names]
    return sorted(found, key=lambda experiment: experiment.place)


# In the order in which they are printed. path-length needs machines of its own and two boots only:
# its table is the first that a user sees.
EXPERIMENTS = {experiment.name: experiment for experiment in _found()}
