# SPDX-License-Identifier: GPL-2.0-only
"""Instructions: next to nothing more than the unmodified kernel's, nor beside a hog."""

from pagehaul.suites.figures import path_length
from pagehaul.suites.suite import Suite

SUITE = Suite("path-length", 310, lambda subject: path_length(subject.base), alone=True)
