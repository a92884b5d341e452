# SPDX-License-Identifier: GPL-2.0-only
"""A small run of the benchmark: every method moves everything, and every byte is right."""

from pagehaul.suites.figures import smoke
from pagehaul.suites.suite import Suite

SUITE = Suite("bench-smoke", 210, lambda subject: smoke(subject.base))
