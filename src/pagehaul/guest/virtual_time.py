# SPDX-License-Identifier: GPL-2.0-only
"""Virtual time: what a guest that is simulated is booted with besides.

sim/ has the simulator: a plugin of QEMU's, which QEMU preloads as well. The guest's clock is what
the plugin counts, so that its figures do not depend on the machine that runs it.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import cprogs, qemu
from pagehaul.guest.machine import Guest
from pagehaul.guest.models import Model
from pagehaul.host import facts
from pagehaul.kernel.built import Kernel
from pagehaul.locks import lock
from pagehaul.paths import REPO

# When the guest believes that it is booted.
_BOOTED = "2026-01-01T00:00:00"

# The guest's TSC counts nanoseconds.
_TSC_KHZ = 1_000_000

# Parameters of the machine that the plugin learns otherwise, or that softdma in the guest is told.
_OF_THE_GUEST = (
    "channel_mb_s",
    "channel_ns",
    "channel_group",
    "channel_group_mb_s",
    "channels_mb_s",
    "channel_page_ns",
    "node_caches",
)

# What QEMU, the plugin and the loader print when the simulation cannot begin; the first that is
# found says most.
_FAILURES = (
    re.compile(r"vtime: error: .*"),
    re.compile(r".*from LD_PRELOAD cannot be preloaded.*"),
    re.compile(r".*[Cc]ould not load plugin.*"),
    re.compile(rf"(?:\S*/)?{qemu.COMMAND}: .*"),
)

# Warnings, and messages about modules of QEMU that belong to the one that is installed: UI, audio,
# disks.
_HARMLESS = re.compile(
    r": (?:warning|info): "
    r"|[Ff]ailed to (?:open|initialize) module|[Oo]nly modules from the same build"
)


@dataclass(frozen=True)
class Simulator:
    """What runs guests in virtual time: a QEMU, and the plugin for it."""

    qemu: qemu.Qemu
    plugin: Path

    def program(self) -> str:
        """Return the lines of a shell script that run QEMU; its options follow."""
        # Other work of the machine makes the guest slower, if not its figures. Only root may do
        # that.
        nice = "renice -n -10 $$ > /dev/null 2>&1\n"
        return nice + self.qemu.words({"LD_PRELOAD": str(self.plugin)})

    def options(self, kernel: Kernel, guest: Guest, model: Model, report: Path) -> list[str]:
        """Return QEMU's options for a guest whose plugin writes `report` when it ends."""
        values: dict[str, object] = {
            name: value for name, value in model.parameters().items() if name not in _OF_THE_GUEST
        }
        values["cpus_per_node"] = _cpus_per_node(guest)
        values["cpu_nodes"] = len(guest.nodes_with_cpus())
        values["cache_cpus"] = guest.cache_cpus()
        values["node_mb"] = ":".join(map(str, guest.node_memory_mb()))
        if (loop := _memcpy(kernel)) is not None:
            values["memcpy"] = loop
        if guest.device_cpus:
            values["device_cpus"] = guest.device_cpus.replace(",", ":")
        values["report"] = report
        if guest.profile is not None:
            values["profile"] = guest.profile
        words = [str(self.plugin), *(f"{name}={value}" for name, value in values.items())]
        return [
            "-rtc",
            f"base={_BOOTED},clock=vm",
            "-plugin",
            ",".join(word.replace(",", ",,") for word in words),
        ]


@cache
def simulator() -> Simulator:
    """Return the simulator, made or fetched if it is not there."""
    with lock("simulator"):
        found = qemu.simulator()
        plugin = cprogs.build_static(REPO / "sim") / "vtime.so"
    if not plugin.is_file():
        raise PagehaulError(f"sim/Makefile made no {plugin.name}; {plugin} is missing")
    return Simulator(found, plugin)


def report_of(work: Path) -> Path:
    """Return where, in the directory of a guest, the simulator writes what it has counted."""
    return work / "simulation.json"


def check(guest: Guest) -> None:
    """Raise PagehaulError for a guest that cannot be simulated; say what makes it slow."""
    per_node = _cpus_per_node(guest)
    if any(cpu // per_node != node for node, cpus in enumerate(guest.node_cpus()) for cpu in cpus):
        raise PagehaulError(
            f"virtual time needs as many CPUs on every node: {guest.cpus} CPUs on {guest.nodes} "
            "nodes are not"
        )
    if facts.cpus() < 2:
        ui.console.print(
            "This machine has one CPU: figures in virtual time are right on it, but take long"
        )


def kernel_words(kernel: Kernel) -> list[str]:
    """Return parameters for a kernel in virtual time."""
    words = [
        # The plugin knows memory, and a profile functions, by where the kernel puts them itself.
        "nokaslr",
        # Where a program has its memory decides how much of it caches can have.
        "norandmaps",
        # The TSC is as virtual as all other clocks: no need to measure it, nor to doubt it.
        "tsc=reliable",
        f"tsc_early_khz={_TSC_KHZ}",
        "no_timer_check",
        # Probing a PS/2 mouse that is not used takes a third of a second.
        "psmouse.proto=bare",
    ]
    ticks = _ticks_per_second(kernel)
    if ticks is not None:
        # Else the first CPU of each socket measures delays by waiting for ticks.
        words.append(f"lpj={_TSC_KHZ * 1000 // ticks}")
    return words


def failure(text: str) -> str | None:
    """Return the line, of what QEMU printed, which says why the simulation did not begin."""
    lines = [line for line in text.splitlines() if not _HARMLESS.search(line)]
    for pattern in _FAILURES:
        for line in lines:
            if pattern.fullmatch(line.strip()):
                return line.strip()
    return None


def _memcpy(kernel: Kernel) -> str | None:
    """Return where a kernel has the loop that copies pages; None for one without a map.

    What it takes on a real machine, which has an instruction for that, is no matter of how many
    instructions the loop has. The instruction, in an emulator, would take for ever.
    """
    try:
        text = (kernel.tree / "System.map").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^(\w+) t memcpy_orig\n(\w+) ", text, re.M)
    return None if found is None else f"{found[1]}-{found[2]}"


def _cpus_per_node(guest: Guest) -> int:
    return len(guest.node_cpus()[0])


def _ticks_per_second(kernel: Kernel) -> int | None:
    """Return the kernel's HZ; None for one whose configuration is not there."""
    try:
        text = kernel.config.read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^CONFIG_HZ=(\d+)$", text, re.M)
    return None if match is None else int(match[1])
