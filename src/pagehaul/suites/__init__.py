# SPDX-License-Identifier: GPL-2.0-only
"""The suites of tests, and the long torture."""
