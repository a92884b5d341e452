# SPDX-License-Identifier: GPL-2.0-only
"""What a guest that had to be ended did, as QEMU's monitor tells it."""

from pathlib import Path
from typing import Any

import pytest

from pagehaul.guest import monitor
from pagehaul.guest.monitor import Symbols

# Two CPUs as QEMU 7.2 shows them, without most of their registers.
REGISTERS = """
CPU#0
RAX=0000000000000000 RBX=0000000000000000 RCX=0000000000000001 RDX=0000000000000000
RSI=0000000000000000 RDI=0000000000000000 RBP=0000000000000000 RSP=ff60000000003e80
RIP=ffffffff82001030 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1
GDT=     fffffe0000001000 0000007f
IDT=     fffffe0000000000 00000fff
CR0=80050033 CR2=00007fe438bacff8 CR3=0000000001963000 CR4=003516f0

CPU#1
RAX=0000000000000000 RBX=0000000000000000 RCX=0000000000000001 RDX=0000000000000000
RSI=0000000000000000 RDI=0000000000000000 RBP=0000000000000000 RSP=ff60000000007e80
RIP=00007fe43aa29740 RFL=00000002 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=0
IDT=     fffffe0000000000 00000fff
"""

MAP = """\
ffffffff81000000 T _stext
ffffffff81001000 t default_idle
ffffffff81002000 T asm_exc_divide_error
ffffffff81003000 T _etext
ffffffff81a00000 D something
ffffffff82000000 t init_code
"""

# The address 0xffffffff82002000 in a gate: the kernel is placed 16 MiB above its map.
GATE = """\
fffffe0000000000: 0x82008e0000102000 0x00000000ffffffff
"""

APIC = """\
LVT0     0x00010700 active-hi edge  masked                      ExtINT (vec 0)
LVTT     0x000400ec active-hi edge                tsc-deadline Fixed (vec 236)
ISR      (none)
IRR      236
"""


def symbols(tmp_path: Path) -> Symbols:
    """Return the symbols of MAP in the guest whose gate is GATE."""
    (tmp_path / "System.map").write_text(MAP, encoding="ascii")
    return Symbols.read(tmp_path / "System.map", monitor.parse_words(GATE))


def test_a_halted_cpu_is_told_with_its_place_and_what_waits_for_it(tmp_path: Path) -> None:
    """Addresses of a kernel that is placed at random are functions again."""
    cpu, _ = monitor.parse_cpus(REGISTERS)
    stack = monitor.parse_words("ff60: 0xffffffff82001009 0x1\nff70: 0xffffffff82a00000 0x2\n")
    assert list(cpu.describe(symbols(tmp_path), stack, APIC)) == [
        "CPU 0: halted at default_idle+0x30, interrupts on",
        "CPU 0:   LVTT 0x000400ec active-hi edge tsc-deadline Fixed (vec 236)",
        "CPU 0:   ISR (none)",
        "CPU 0:   IRR 236",
        "CPU 0:   on its stack: default_idle+0x9",
    ]


def test_a_cpu_in_a_program_is_told_by_its_address(tmp_path: Path) -> None:
    """No function of the kernel is there."""
    _, cpu = monitor.parse_cpus(REGISTERS)
    lines = list(cpu.describe(symbols(tmp_path), [], ""))
    assert lines == ["CPU 1: runs at 0x7fe43aa29740, interrupts off"]


def test_a_kernel_without_a_map_is_told_by_addresses(tmp_path: Path) -> None:
    """As one that somebody else has built."""
    cpu, _ = monitor.parse_cpus(REGISTERS)
    none = Symbols.read(tmp_path / "System.map", monitor.parse_words(GATE))
    assert list(cpu.describe(none, [], "")) == [
        "CPU 0: halted at 0xffffffff82001030, interrupts on"
    ]


def test_there_is_no_function_behind_the_end(tmp_path: Path) -> None:
    found = symbols(tmp_path)
    assert found.name(0xFFFFFFFF82002FFF) == "asm_exc_divide_error+0xfff"
    assert found.name(0xFFFFFFFF82003000) == ""


def test_each_cpu_is_asked_for_what_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    class Client:
        def __init__(self, name: str) -> None:
            pass

        async def connect(self, path: str) -> None:
            pass

        async def disconnect(self) -> None:
            pass

        async def execute(self, command: str, words: dict[str, Any] | None = None) -> str:
            if words is None:
                asked.append((command, -1))
                return ""
            asked.append((words["command-line"], words["cpu-index"]))
            if fails and "lapic" in words["command-line"]:
                raise OSError("gone")
            if "status" in words["command-line"]:
                return "VM status: running\n"
            return REGISTERS if "registers" in words["command-line"] else ""

    monkeypatch.setattr(monitor, "QMPClient", Client)
    (tmp_path / "monitor").touch()
    fails = False
    assert len(monitor.tell(tmp_path, tmp_path)) == 3
    # It stands still while it is asked.
    assert asked[:2] == [("info status", 0), ("stop", -1)]
    assert asked[4:] == [
        ("info lapic", 0),
        ("x /192gx 0xff60000000003e80", 0),
        ("info lapic", 1),
        ("x /192gx 0xff60000000007e80", 1),
        ("cont", -1),
    ]
    fails = True
    assert monitor.tell(tmp_path, tmp_path) == ["QEMU's monitor: gone"]
    assert asked[-1] == ("cont", -1)


def test_no_monitor_where_its_socket_could_not_be(tmp_path: Path) -> None:
    """QEMU would not start; and of a guest that has none, nothing is told."""
    deep = tmp_path / ("x" * 120)
    assert monitor.options(deep) == []
    # The kernel counts bytes.
    assert monitor.options(Path("\u00fc" * 60)) == []
    assert monitor.options(tmp_path)[0] == "-qmp"
    assert monitor.tell(tmp_path, tmp_path) == []


def test_a_monitor_that_is_gone_is_told(tmp_path: Path) -> None:
    """As when QEMU has crashed."""
    (tmp_path / "monitor").touch()
    (line,) = monitor.tell(tmp_path, tmp_path)
    assert line.startswith("QEMU's monitor: ")


TOLD = """\
CPU 1: halted at default_idle+0x9, interrupts on
CPU 1:   IRR 236
CPU 1:   ISR (none)
CPU 2: {state}
CPU 2:   LVTT 0x000200ec periodic Fixed (vec 236)
CPU 2:   ISR {vector}
CPU 2:   IRR 32(level) 236
"""
IDLE = "halted at default_idle+0x9, interrupts on"


@pytest.mark.parametrize(
    ("state", "vector", "lost"),
    [
        (IDLE, "236", {"2"}),
        (IDLE, "(none)", set()),
        # It may be in the handler.
        ("runs at handle_irq+0x9, interrupts on", "236", set()),
        ("halted at default_idle+0x9, interrupts off", "236", set()),
    ],
)
def test_an_idle_cpu_with_an_interrupt_in_service_has_lost_it(
    state: str, vector: str, lost: set[str]
) -> None:
    assert monitor.lost_interrupt(TOLD.format(state=state, vector=vector)) == lost


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ((IDLE, IDLE), "no interrupt reaches CPU 2 any more"),
        # It had just halted when the first question came, and was in the handler at the second.
        ((IDLE, "runs at handle_irq+0x9, interrupts on"), ""),
    ],
)
def test_a_cpu_is_stuck_that_looks_the_same_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: tuple[str, str], why: str
) -> None:
    looks = iter(seconds)
    told = lambda work, tree: TOLD.format(state=next(looks), vector="236").splitlines()  # noqa: E731
    monkeypatch.setattr(monitor, "tell", told)
    monkeypatch.setattr(monitor, "_LOOKS_AGAIN_S", 0.0)
    assert monitor.stuck(tmp_path, tmp_path) == why
