# SPDX-License-Identifier: GPL-2.0-only
"""What tools can say of the sources without running them."""

from pagehaul.suites.sources import linted
from pagehaul.suites.suite import Suite

SUITE = Suite("lint", 20, lambda subject: linted(subject.base), boots=False)
