# SPDX-License-Identifier: GPL-2.0-only
"""What is measured besides speed, a module each."""
