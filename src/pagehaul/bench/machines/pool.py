# SPDX-License-Identifier: GPL-2.0-only
"""A pool of threads that copy, in a guest."""

import shlex
from collections.abc import Sequence

from pagehaul.guest.machine import Guest
from pagehaul.kernel import built
from pagehaul.kernel.built import Kernel


def loaded(kernel: Kernel, guest: Guest, cpus: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` where mtcopy is loaded, without threads so far."""
    del guest, cpus
    load = f"insmod {shlex.quote(str(built.module(kernel, 'mtcopy')))}"
    return ["sh", "-c", f"{load} && exec {shlex.join(command)}"]
