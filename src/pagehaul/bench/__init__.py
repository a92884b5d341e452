# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark: what is measured, on which machines, and the tables of what came out."""
