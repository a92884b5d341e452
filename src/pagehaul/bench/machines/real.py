# SPDX-License-Identifier: GPL-2.0-only
"""The machine we are on, and the kernel that it runs."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import Any

from pagehaul.bench.cell import DCBM, MTCOPY, Size
from pagehaul.bench.experiment import Experiment
from pagehaul.bench.machines.hardware import Hardware
from pagehaul.bench.machines.kinds import DMA, KINDS, POOL, Kind
from pagehaul.bench.machines.places import Lines, OnLine, Place, Turn, parse_lines
from pagehaul.errors import PagehaulError
from pagehaul.host import nodes

_MIGRATE_COPY = Path("/sys/kernel/mm/migrate_copy")

# MiB of a node that are not for the pages being moved.
_NODE_RESERVE_MB = 384


@dataclass
class Host:
    """The machine we are on, and the kernel that it runs."""

    program: Path

    def __post_init__(self) -> None:
        """Raise PagehaulError where nothing can be measured."""
        if os.geteuid() != 0:
            raise PagehaulError(
                "bench --host needs root: it checks the size of every folio in /proc/kpageflags"
            )
        if len(nodes_with_memory()) < 2:
            raise PagehaulError(
                "bench --host needs two NUMA nodes with memory, and this machine has one; "
                "without --host both kernels are measured in guests"
            )

    def kernels(self) -> tuple[str, ...]:
        """Return the running kernel."""
        return ("pagehaul" if _MIGRATE_COPY.is_dir() else "vanilla",)

    def _kinds(self) -> tuple[Kind, ...]:
        """Instructions are counted in a guest only; the caches are those that there are."""
        engines = {DCBM: DMA, MTCOPY: POOL}
        loaded = (kind for name, kind in engines.items() if (_MIGRATE_COPY / name).is_dir())
        return (*(kind for kind in KINDS.values() if kind.on_host), *loaded)

    def places(self, experiment: Experiment, quick: bool) -> tuple[Place, ...]:
        """Return this machine, which is no model of another one."""
        del quick
        if experiment.models or experiment.machine not in self._kinds():
            return ()
        return (Place(experiment.machine, os.cpu_count() or 1),)

    def at_once(self, places: Sequence[Place], quick: bool) -> int:
        """There is one."""
        del places, quick
        return 1

    def disposable(self) -> bool:
        """No real machine is."""
        return False

    def nodes(self) -> tuple[int, int]:
        """Return the first two nodes that have memory."""
        first, second, *_ = nodes_with_memory()
        return first, second

    def size(self, place: Place, quick: bool) -> Size:
        """Return what is free on both nodes now."""
        free_mb = min(_node_free_mb(node) for node in self.nodes())
        gigantic = min(_free_gigantic_pages(node) for node in self.nodes())
        return Size(
            quick=quick,
            cpus=place.cpus,
            node_mb=max(0, free_mb * 3 // 4 - _NODE_RESERVE_MB),
            gigantic_pages=gigantic,
        )

    def run(
        self,
        place: Place,
        quick: bool,
        turns: Sequence[Turn],
        timeout: float,
        on_line: OnLine,
        stop: Event,
    ) -> list[tuple[str, dict[str, Any]]]:
        """Take the turns here."""
        del place, quick, stop
        lines, kernel = [], self.kernels()[0]
        process = subprocess.Popen(
            [str(self.program), "--plan=-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # SIGTERM, not SIGKILL: the program then puts back the settings it changed.
        timer = Timer(timeout, process.terminate)
        timer.start()
        try:
            process.stdin.write("".join(f"{turn.line}\n" for turn in turns))
            process.stdin.close()
            for line in process.stdout:
                lines.append(line)
                for found in Lines().add(line.encode()):
                    on_line(kernel, found)
            returncode = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                process.terminate()
                process.wait()
        return [(kernel, line) for line in parse_lines("".join(lines), returncode, "", "")]

    def environment(self) -> dict[str, Any]:
        """Return the machine."""
        first, second = self.nodes()
        here = {
            "accelerator": "none",
            "cpus": os.cpu_count(),
            "nodes": len(nodes_with_memory()),
            "from": first,
            "to": second,
        }
        return {
            "machines": {kind.name: here for kind in self._kinds()},
            "kernels": {self.kernels()[0]: platform.release()},
            "host": Hardware.here().host(),
        }


def nodes_with_memory() -> tuple[int, ...]:
    """Return the NUMA nodes of this host that have memory, none where the kernel has no NUMA."""
    try:
        return nodes.memory_nodes()
    except (PagehaulError, ValueError):
        return ()


def _node_free_mb(node: int) -> int:
    found = re.search(
        r"MemFree:\s+(\d+) kB", (nodes.SYSFS_NODES / f"node{node}" / "meminfo").read_text()
    )
    return int(found[1]) // 1024 if found else 0


def _free_gigantic_pages(node: int) -> int:
    path = (
        nodes.SYSFS_NODES / f"node{node}" / "hugepages" / "hugepages-1048576kB" / "free_hugepages"
    )
    return int(path.read_text()) if path.exists() else 0
