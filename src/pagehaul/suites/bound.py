# SPDX-License-Identifier: GPL-2.0-only
"""A guest bound to a node of the host is where it was told to be."""

import os
import re
from contextlib import suppress
from pathlib import Path

from pagehaul.guest import binding, vm
from pagehaul.guest.binding import Binding
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Listener, Task
from pagehaul.kernel.built import Kernel
from pagehaul.suites import room
from pagehaul.suites.outcomes import Outcome, skipped, verdict

_NODES = "each node of a guest is bound to a node of the host"
_CPUS = "each CPU of a guest is pinned to a CPU of the host"
_MEMORY_MB = 1024
_TIMEOUT_S = 600.0
_READY = b"ready"
_SCRIPT = f"cat /sys/devices/system/node/node[01]/cpulist; echo {_READY.decode()}; sleep 1"


def check(kernel: Kernel) -> list[Outcome]:
    """Boot a guest whose two nodes are on the host's first node, and look for it there."""
    hosts = [host for host in binding.read() if host.cpus]
    if not hosts or not binding.may_bind(hosts[0].number):
        return [skipped(_NODES, "this process may not bind memory to a node")]
    node, cpus = hosts[0].number, (hosts[0].cpus[-1], hosts[0].cpus[0])
    guest = Guest(
        cpus=2,
        nodes=2,
        memory_mb=_MEMORY_MB,
        accel="tcg",
        append=(f"pagehaul.bound={os.getpid()}",),
        binding=Binding((node, node), cpus, (False, False)),
    )
    seen: list[str] = []

    def look(stream: str, data: bytes) -> None:
        if stream == "stdout" and _READY in data:
            process = _process(guest.append[0])
            seen.extend((memory_wrong(process, node), cpus_wrong(process, cpus)))

    task = Task(["sh", "-c", _SCRIPT], _TIMEOUT_S, files=())
    with room.hold(_MEMORY_MB):
        found = vm.run(kernel, guest, task, listener=Listener(look))
    memory, pinned = seen or ("the guest did not begin", "the guest did not begin")
    if found.stdout.split() != ["0", "1", _READY.decode()]:
        pinned = pinned or f"CPUs of the guest's nodes, by its kernel: {found.stdout.split()}"
    return [verdict(_NODES, memory), verdict(_CPUS, pinned)]


def _process(word: str) -> Path:
    """Return the QEMU with a word on its command line, in /proc."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            program, *words = (path / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if "qemu" in Path(program).name and any(word in each for each in words):
            return path
    raise AssertionError("the guest that has just printed has no QEMU")


def memory_wrong(process: Path, node: int) -> str:
    """Return what is wrong with the memory of a guest, "" if all of it is bound to the node."""
    text = (process / "numa_maps").read_text()
    lines = re.findall(rf"^\S+ bind:{node} .*\bN{node}=(\d+) kernelpagesize_kB=(\d+)$", text, re.M)
    mb = sum(int(pages) * int(kb) for pages, kb in lines) >> 10
    return "" if mb >= _MEMORY_MB else f"{mb} of {_MEMORY_MB} MiB are"


def cpus_wrong(process: Path, cpus: tuple[int, ...]) -> str:
    """Return what is wrong with the CPUs of a guest, "" if each has a thread pinned to it."""
    threads = []
    for path in (process / "task").iterdir():
        with suppress(ProcessLookupError):
            threads.append(os.sched_getaffinity(int(path.name)))
    missing = [cpu for cpu in cpus if threads.count({cpu}) < cpus.count(cpu)]
    return f"no thread is pinned to {missing}, but {threads}" if missing else ""
