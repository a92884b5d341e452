# SPDX-License-Identifier: GPL-2.0-only
"""Which suites there are: one for each module of suites/all/."""

import importlib
import pkgutil

from pagehaul.suites import all as modules
from pagehaul.suites.suite import Suite


def _found() -> list[Suite]:
    names = [each.name for each in pkgutil.iter_modules(modules.__path__, f"{modules.__name__}.")]
    suites: list[Suite] = [importlib.import_module(name).SUITE for name in names]
    return sorted(suites, key=lambda suite: suite.place)


# In the order in which they run.
SUITES = {suite.name: suite for suite in _found()}

OF_VARIANTS = {name: suite for name, suite in SUITES.items() if suite.of_variants}

ON_REQUEST = tuple(name for name, suite in SUITES.items() if suite.on_request)

# Those of the tool, which are the same on every base; and what is instead of `lint` on the others.
OF_THE_TOOL = ("unit", "lint")
ELSEWHERE_ONLY = ("compile",)
