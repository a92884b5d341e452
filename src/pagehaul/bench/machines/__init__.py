# SPDX-License-Identifier: GPL-2.0-only
"""Where the benchmark programs run: guests of several kernels, or the kernel of this host."""
