# SPDX-License-Identifier: GPL-2.0-only
"""Parameters for the kernel of a guest."""

from pagehaul.guest import virtual_time
from pagehaul.guest.machine import Guest
from pagehaul.kernel.arches import X86_64
from pagehaul.kernel.build import CHECKING_VARIANTS
from pagehaul.kernel.built import Kernel


def words(kernel: Kernel, guest: Guest) -> list[str]:
    """Return the parameters, those of the guest itself last."""
    found = ["panic=-1"]
    if guest.model is not None:
        found += virtual_time.kernel_words(kernel)
    elif guest.accel == "tcg":
        found += [
            # The host runs other things besides: a virtual CPU may not run for seconds. For that
            # reason, and because emulation is 10 times slower, a hang counts as one after 120 s
            # (soft lockup), 120 s (RCU) and 240 s (tasks). On hardware that is 20, 21 and 120 s.
            "watchdog_thresh=60",
            "rcupdate.rcu_cpu_stall_timeout=120",
            "sysctl.kernel.hung_task_timeout_secs=240",
        ]
    if guest.accel == "tcg" and guest.model is None and kernel.arch is X86_64:
        found += [
            # The clock's watchdog would call a CPU that does not run for seconds a bad TSC, and
            # switch to a slow clock.
            "tsc=reliable",
            # The kernel would wait a moment for a few ticks, miss them, and give up ("IO-APIC +
            # timer doesn't work").
            "no_timer_check",
            # Probing a PS/2 mouse that is not used takes a third of a second.
            "psmouse.proto=bare",
        ]
    if kernel.variant in CHECKING_VARIANTS:
        found += [
            # Compiled in, it is off unless it is asked for.
            "page_poison=1",
            # lockdep says at this level only that it has no room left and turns itself off.
            "loglevel=8",
        ]
    return [*found, *guest.append]
