# SPDX-License-Identifier: GPL-2.0-only
"""Moves pages of processes between NUMA nodes of the running kernel."""
