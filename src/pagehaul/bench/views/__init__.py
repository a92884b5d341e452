# SPDX-License-Identifier: GPL-2.0-only
"""Tables of figures that are there already, for experiments that are not told by a measure."""
