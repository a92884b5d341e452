# SPDX-License-Identifier: GPL-2.0-only
"""The boards that guests are booted on."""
