# SPDX-License-Identifier: GPL-2.0-only
"""The kernels: their sources, the series that is laid over them, and their builds."""
