# SPDX-License-Identifier: GPL-2.0-only
"""Data that comes with the package."""
