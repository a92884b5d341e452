# SPDX-License-Identifier: GPL-2.0-only
"""The report: the verdict, what readers ask, tables for the terminal, and a page with pictures."""
