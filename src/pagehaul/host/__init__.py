# SPDX-License-Identifier: GPL-2.0-only
"""The machine that the tool runs on: its packages, its processors, its memory and its nodes."""
