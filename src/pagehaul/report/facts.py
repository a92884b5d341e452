# SPDX-License-Identifier: GPL-2.0-only
"""On what a run was measured, and what was left out, in lines for people."""

from typing import Any

from pagehaul.bench.captions import TCG_CAVEAT
from pagehaul.bench.row import Results


def facts(results: Results) -> list[str]:
    """Lines that say where figures come from, and what was left out."""
    environment = results.environment
    lines = []
    kernels: dict[str, Any] = environment.get("kernels", {})
    machines: dict[str, Any] = environment.get("machines", {})
    host: dict[str, Any] = environment.get("host", {})
    lines.append(
        f"{environment.get('date', 'no date')}, "
        + ", ".join(f"{name} {release}" for name, release in kernels.items())
        + (", quick run" if environment.get("quick") else "")
    )
    for name, machine in machines.items():
        described = ", ".join(f"{key} {_listed(value)}" for key, value in machine.items() if value)
        lines.append(f"machine {name}: {described}")
    if host:
        lines.append(f"host: {host.get('cpu')}, {host.get('cpus')} CPUs")
    if environment.get("boots"):
        lines.append(f"boots: {', '.join(environment['boots'])}")
    emulated = any(machine.get("accelerator") == "tcg" for machine in machines.values())
    if emulated and any(row.clock == "host" for row in results.rows):
        lines.append(TCG_CAVEAT)
    return lines + [f"note: {note}" for note in environment.get("notes", [])]


def _listed(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)
