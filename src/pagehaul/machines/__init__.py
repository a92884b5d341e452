# SPDX-License-Identifier: GPL-2.0-only
"""Where the benchmark programs run: guests of several kernels, or the kernel of this host."""

from pagehaul.machines.guests import CHANNEL_MB, Guests
from pagehaul.machines.places import Machine, Place, Turn, memory_available_mb, parse_lines
from pagehaul.machines.real import Host
from pagehaul.machines.referee import Referee

__all__ = [
    "CHANNEL_MB",
    "Guests",
    "Host",
    "Machine",
    "Place",
    "Referee",
    "Turn",
    "memory_available_mb",
    "parse_lines",
]
