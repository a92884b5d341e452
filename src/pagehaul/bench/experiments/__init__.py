# SPDX-License-Identifier: GPL-2.0-only
"""The experiments, a module each."""
