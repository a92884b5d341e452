# SPDX-License-Identifier: GPL-2.0-only
"""Guests of the tests: one call for what a guest is to do and who listens to it."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pagehaul.guest import vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Listener, Result, Task
from pagehaul.kernel.built import Kernel

TO_LISTEN = {each.name for each in fields(Listener)}


def run_guest(
    kernel: Kernel, guest: Guest, command: Sequence[str], log: Path, **how: Any
) -> Result:
    """Run a command in a guest; `how` are further fields of its task and of its listener."""
    task = Task(command, **{name: value for name, value in how.items() if name not in TO_LISTEN})
    listener = Listener(**{name: how[name] for name in TO_LISTEN & how.keys()})
    return vm.run(kernel, guest, task, log=log, listener=listener)
