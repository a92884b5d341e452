# SPDX-License-Identifier: GPL-2.0-only
"""Pagehaul: builds, boots, tests and measures a kernel that migrates pages faster."""
