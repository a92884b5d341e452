# SPDX-License-Identifier: GPL-2.0-only
"""What this machine has: processors, memory, and nodes that have some."""

import os
import platform
import re
from pathlib import Path


def cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_model() -> str:
    """Return the name of the processor."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def memory_available_mb() -> int:
    """Return the MiB that this machine can give away; 0 where the kernel does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) // 1024 if found else 0
