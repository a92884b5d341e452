# SPDX-License-Identifier: GPL-2.0-only
"""What a guest has instead of a DMA engine."""

import shlex
from collections.abc import Sequence

from pagehaul.guest.machine import Guest
from pagehaul.kernel import built
from pagehaul.kernel.built import Kernel

# Threads that copy, each held to the speed of the model's
# channels or, against the host's clock, to so many MB/s: slow enough that several can be told from
# one. They have CPUs of their own, which are part of the device and run nothing else: in virtual
# time one each, which costs nothing while it sleeps, and half of the guest's otherwise.
COUNT = 16
CHANNEL_MB = 200


def device_cpus(guest: Guest, cpus: int) -> str:
    """Return the list of the CPUs that make up the DMA engine of a guest with `cpus` others."""
    if guest.model is None:
        return f"{guest.cpus // 2}-{guest.cpus - 1}"
    parts = []
    left = cpus
    for number, of_node in enumerate(guest.node_cpus()):
        # Of all others, the caller's and helpers', each node has its part.
        mine = -(-left // (guest.nodes - number))
        left -= mine
        parts.append(f"{of_node.start + mine}-{of_node.stop - 1}")
    return ",".join(parts)


def loaded(kernel: Kernel, guest: Guest, cpus: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` where dcbm has channels of softdma to use."""
    softdma, dcbm = (shlex.quote(str(built.module(kernel, name))) for name in ("softdma", "dcbm"))
    params = f"channels={COUNT} cpus={device_cpus(guest, cpus)}"
    if guest.model is None:
        params += f" bandwidth_mb={CHANNEL_MB}"
    else:
        model = guest.model
        params += f" bandwidth_mb={model.channel_mb_s} setup_ns={model.channel_ns}"
        params += f" group={model.channel_group} group_mb={model.channel_group_mb_s}"
        params += f" all_mb={model.channels_mb_s}"
    load = f"insmod {softdma} {params} && insmod {dcbm}"
    return ["sh", "-c", f"{load} && exec {shlex.join(command)}"]
