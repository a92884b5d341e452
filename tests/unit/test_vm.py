# SPDX-License-Identifier: GPL-2.0-only
"""Running guests, with a pretended vng: what comes back, what is an error, what is left behind."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guest_runs import run_guest

from pagehaul import paths
from pagehaul.errors import PagehaulError
from pagehaul.guest import command_line, kvm, models, monitor, qemu, qemu_options, session, spent
from pagehaul.guest.binding import Binding
from pagehaul.guest.boards import x86
from pagehaul.guest.console import Console
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, LostInterrupt, Result
from pagehaul.host import tools
from pagehaul.kernel.build import VARIANTS
from pagehaul.kernel.built import Kernel

Fake = Callable[[str, str], Path]


class Booted:
    """Runs a command in a guest that behaves as a script says."""

    def __init__(self, fake_guest: Fake, tmp_path: Path) -> None:
        self._fake = fake_guest
        self._tmp = tmp_path

    def __call__(self, script: str, *, timeout: float = 20, **how: Any) -> Result:
        self.vng = self._fake("vng", script)
        self.log = self._tmp / "logs/guest.log"
        image = self._tmp / "bzImage"
        kernel = Kernel("vanilla", self._tmp, image, self._tmp / ".config", "7.3.99")
        guest = Guest(accel="tcg", memory_mb=512, binding=how.pop("binding", None))
        return run_guest(kernel, guest, ["echo", "a b"], self.log, timeout=timeout, **how)


@pytest.fixture
def boot(fake_guest: Fake, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Booted:
    booted = Booted(fake_guest, tmp_path)
    monkeypatch.setattr(tools, "need_for", lambda group: None)
    monkeypatch.setattr(x86, "_vng_path", lambda: tmp_path / "fake-bin/vng")
    return booted


def test_streams_and_status_come_back_apart(boot: Booted) -> None:
    result = boot('echo hello > "$out"; echo oh > "$err"; echo 3 > "$status"')
    assert (result.returncode, result.stdout, result.stderr) == (3, "hello\n", "oh\n")
    assert result.accel == "tcg"
    assert "Linux version" in result.log.read_text() and "hello" not in result.log.read_text()


def test_cpus_of_a_bound_guest_are_pinned_while_it_runs(
    boot: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pin(work: Path, cpus: tuple[int, ...], runs: Callable[[], bool]) -> None:
        asked.append((cpus, runs(), (work / "qemu").exists()))

    monkeypatch.setattr(monitor, "pin", pin)
    script = 'sleep 1; echo 0 > "$status"'
    boot(script, binding=Binding((0, 0), (5, 3), (False, False)))
    assert asked == [((5, 3), True, True)]
    boot(script)
    assert len(asked) == 1


def test_long_output_comes_back_whole(boot: Booted) -> None:
    result = boot('seq 100000 > "$out"; echo 0 > "$status"')
    assert result.stdout == "".join(f"{number}\n" for number in range(1, 100001))


def test_watched_directories_are_mounted_by_themselves(boot: Booted, tmp_path: Path) -> None:
    boot('echo 0 > "$status"', watched=[tmp_path])
    assert f"--rodir={tmp_path} " in boot.vng.with_name("vng.arguments").read_text()


def test_nothing_is_left_in_the_cache(boot: Booted, cache: Path) -> None:
    boot('echo 0 > "$status"')
    assert list(cache.glob("guest-*")) == []


@pytest.mark.parametrize(
    "message",
    [
        "Kernel panic - not syncing: Fatal exception",
        "Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "BUG: kernel NULL pointer dereference, address: 0000000000000000",
        "BUG: unable to handle page fault for address: ffffc90000000000",
        "BUG: sleeping function called from invalid context at mm/migrate.c:1",
        "BUG: Bad page state in process movebench  pfn:12345",
        "BUG: KASAN: slab-use-after-free in folio_copy+0x1/0x2",
        "BUG kmalloc-64 (Not tainted): Right Redzone overwritten",
        "kernel BUG at mm/migrate.c:1!",
        "WARNING: CPU: 1 PID: 70 at mm/migrate.c:1 migrate_pages+0x1/0x2",
        "WARNING: possible circular locking dependency detected",
        "WARNING: suspicious RCU usage",
        "WARNING: Possible deadlock",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [movebench:70]",
        "INFO: task movebench:70 blocked for more than 120 seconds.",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "general protection fault, probably for non-canonical address 0xdead000000000122",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "pagealloc: memory corruption",
        "pagealloc: single bit error",
        "DMA-API: cacheline tracking ENOMEM, dma-debug disabled",
        "DMA-API: debugging out of memory - disabling",
        "ODEBUG: Out of memory. ODEBUG disabled",
        "kmemleak: Memory pool empty, consider increasing CONFIG_DEBUG_KMEMLEAK_MEM_POOL_SIZE",
        "kmemleak: Cannot allocate a kmemleak_object structure",
        "kmemleak: Kernel memory leak detector disabled",
        "kmemleak: Kmemleak disabled without freeing internal data.",
        "turning off the locking correctness validator.",
    ],
)
@pytest.mark.parametrize("prefix", ["[    1.234567] ", "[    1.234567][   T70] ", ""])
def test_complaint_of_the_kernel_is_an_error(message: str, prefix: str) -> None:
    console = Console(())
    console.feed(f"[    1.0] fine\n{prefix}{message}\r\n[    1.3] RIP: 0010:x\n".encode())
    assert console.splat == message
    assert "RIP: 0010:x" in console.report("what", Path("log"))
    assert "fine" not in console.report("what", Path("log"))


@pytest.mark.parametrize("off", [False, True])
def test_a_warning_of_the_end_counts_unless_the_machine_goes_off(off: bool) -> None:
    console = Console(())
    if off:
        console.feed(b"[   79.245740] reboot: Power down\n")
    warning = b"WARNING: CPU: 3 PID: 258 at kernel/sched/core.c:3300 %s+0x17a/0x1a0\n"
    console.feed(b"[   79.256348] " + warning % b"set_task_cpu")
    assert (console.splat is None) == off
    console.feed(b"[   79.256350] " + warning % b"ttwu_queue")
    assert console.splat is not None


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] Warning: unable to open an initial console.",
        "[    1.0] ACPI BIOS Warning (bug): Incorrect checksum",
        "[    1.0] [Firmware Bug]: TSC doesn't count with P0 frequency!",
        "[    1.0] debug: the word BUG: in the middle",
        "[    1.0] test: expects WARNING: CPU: 0",
        "[    1.0] rcu: Hierarchical RCU implementation.",
        "[    1.0] INFO: lockdep is turned off.",
        "[    1.0] DMA-API: preallocated 65536 debug entries",
        "[    1.0] DMA-API: debugging enabled by kernel config",
        "[    1.0] kmemleak: Kernel memory leak detector initialized (mem pool available: 15669)",
        "[    1.0] kmemleak: Automatic memory scanning thread started",
        "WARNINGS: 0",
    ],
)
def test_harmless_line_is_none(line: str) -> None:
    console = Console(())
    console.feed(line.encode() + b"\n")
    assert console.splat is None


def test_complaint_in_pieces_is_seen() -> None:
    console = Console(())
    for byte in b"[    1.0] WARNING: CPU: 0\n":
        console.feed(bytes([byte]))
    assert console.splat == "WARNING: CPU: 0"


def test_complaint_is_an_error_even_when_the_command_succeeds(boot: Booted) -> None:
    with pytest.raises(GuestError) as error:
        boot('echo "[ 1.0] WARNING: CPU: 0 PID: 1 at x"; echo "[ 1.0] RIP: y"; echo 0 > "$status"')
    assert "WARNING: CPU: 0 PID: 1 at x" in str(error.value)
    assert "RIP: y" in str(error.value) and str(boot.log) in str(error.value)
    assert "RIP: y" in boot.log.read_text()


def test_expected_complaint_is_none(boot: Booted) -> None:
    script = 'echo "[ 1.0] WARNING: CPU: 0 PID: 1 at x"; echo 0 > "$status"'
    assert boot(script, allow=("at x$",)).returncode == 0
    with pytest.raises(GuestError):
        boot(script, allow=("at y$",))


# What virtme-ng does with --qemu, and how that ends.
QEMU = 'for word; do case $word in --qemu=*) qemu=${word#*=};; esac; done; eval "$qemu"; exit 255'


def test_what_a_guest_takes_is_counted_until_its_command_begins_and_after_that(
    boot: Booted,
) -> None:
    before = spent.so_far()
    boot('sleep 0.3; echo begun > "$out"; sleep 1.2; echo 0 > "$status"')
    took = {name: amount - before.get(name, 0) for name, amount in spent.so_far().items()}
    assert took["guests"] == 1
    assert took["boot_s"] >= 0.3 and took["run_s"] >= 1.0
    assert took["boot_s"] < 0.3 + 1.2


def test_a_signal_that_ends_qemu_is_told(boot: Booted, fake_command: Fake) -> None:
    fake_command("qemu-system-x86_64", "kill -SEGV $$")
    with pytest.raises(GuestError, match="before its command did: a signal ended QEMU"):
        boot(QEMU)


def test_qemu_that_ends_by_itself_is_no_crash(boot: Booted, fake_command: Fake) -> None:
    fake_command("qemu-system-x86_64", "exit 1")
    with pytest.raises(GuestError, match="ended before its command did;"):
        boot(QEMU)
    assert [path.name for path in boot.log.parent.iterdir()] == ["guest.log"]


def test_guest_that_ends_early_is_an_error(boot: Booted) -> None:
    with pytest.raises(GuestError, match="ended before its command did"):
        boot('echo half > "$out"; exit 1')


def test_bad_option_is_shown(boot: Booted) -> None:
    with pytest.raises(GuestError, match="qemu: no such option"):
        boot("echo qemu: no such option >&2; exit 1")


def test_guest_that_takes_too_long_is_killed_with_all_it_started(
    boot: Booted, alive: Callable[[str], bool]
) -> None:
    started = time.monotonic()
    with pytest.raises(GuestError, match="not finished after 1 s"):
        boot("echo starting; sleep 98765 & sleep 98765", timeout=1)
    assert time.monotonic() - started < 5
    assert "starting" in boot.log.read_text()
    assert not alive("sleep 98765")


def test_guest_that_hangs_is_killed_before_its_time(
    boot: Booted, monkeypatch: pytest.MonkeyPatch, alive: Callable[[str], bool]
) -> None:
    monkeypatch.setattr(session, "_HANG_GRACE_S", 1.0)
    started = time.monotonic()
    with pytest.raises(GuestError, match="task x blocked for more than"):
        boot('echo "[ 1.0] INFO: task x blocked for more than 9 seconds."; sleep 98764')
    assert time.monotonic() - started < 10
    assert not alive("sleep 98764")


LOST = """\
echo "[ 1.0] INFO: task swapper/0:1 blocked for more than 9 seconds."
echo "CPU 2: halted at pv_native_safe_halt+0xb, interrupts on"
echo "CPU 2:   ISR {vector}"
sleep 98766
"""


@pytest.mark.parametrize(("vector", "lost"), [("236", True), ("(none)", False)])
def test_an_interrupt_that_the_emulator_lost_is_told_apart(
    boot: Booted, monkeypatch: pytest.MonkeyPatch, vector: str, lost: bool
) -> None:
    monkeypatch.setattr(session, "_HANG_GRACE_S", 1.0)
    with pytest.raises(GuestError, match="blocked for more than") as caught:
        boot(LOST.format(vector=vector))
    assert isinstance(caught.value, LostInterrupt) is lost


def test_a_silent_guest_that_cannot_go_on_is_killed_before_its_time(
    boot: Booted, monkeypatch: pytest.MonkeyPatch, alive: Callable[[str], bool]
) -> None:
    monkeypatch.setattr(session, "_SILENT_S", 2.0)
    monkeypatch.setattr(monitor, "stuck", lambda work, tree: "CPU 1 is stuck")
    started = time.monotonic()
    with pytest.raises(GuestError, match="CPU 1 is stuck"):
        # Not while it talks.
        boot("for i in 1 2 3; do sleep 1; echo $i; done; sleep 98762")
    assert 4 < time.monotonic() - started < 10
    assert "3" in boot.log.read_text().splitlines()
    assert not alive("sleep 98762")


def test_guest_that_does_not_power_off_is_an_error(
    boot: Booted, monkeypatch: pytest.MonkeyPatch, alive: Callable[[str], bool]
) -> None:
    monkeypatch.setattr(session, "POWER_OFF_S", 1.0)
    with pytest.raises(GuestError, match="not powered off"):
        boot('echo 0 > "$status"; sleep 98763')
    assert not alive("sleep 98763")


def test_another_thread_stops_a_guest(boot: Booted, alive: Callable[[str], bool]) -> None:
    stop = threading.Event()
    timer = threading.Timer(1, stop.set)
    timer.start()
    with pytest.raises(GuestError, match="stopped"):
        boot("sleep 98766", stop=stop)
    timer.join()
    assert not alive("sleep 98766")


def test_interrupt_kills_the_guest(
    boot: Booted, monkeypatch: pytest.MonkeyPatch, alive: Callable[[str], bool]
) -> None:
    def interrupt(console: Console, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Console, "feed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        boot("sleep 98762")
    assert not alive("sleep 98762")


def test_a_guest_ends_with_the_tool_however_that_ends(
    alive: Callable[[str], bool],
) -> None:
    script = (
        "import subprocess, sys\n"
        "from pagehaul.ui import ending_with_us\n"
        "guest = subprocess.Popen(['sh', '-c', 'sleep 98761 & sleep 98761'],"
        " start_new_session=True)\n"
        "with ending_with_us(guest):\n"
        "    print('begun', flush=True)\n"
        "    guest.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None and tool.stdout.readline() == b"begun\n"
        assert alive("sleep 98761")
        tool.kill()
    until = time.monotonic() + 10
    while alive("sleep 98761") and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive("sleep 98761")


def test_command_reaches_the_guest_quoted(boot: Booted) -> None:
    result = boot(
        'script=$(echo "$@" | grep -o "/[^ ]*/run.sh"); grep -o "exec .*)" "$script" > "$out"\n'
        'echo 0 > "$status"'
    )
    assert result.stdout == "exec echo 'a b')\n"


@pytest.mark.parametrize(
    ("variant", "checks"),
    [(name, name in ("debug", "debug-pcp-compound")) for name in VARIANTS],
)
def test_what_has_to_be_asked_for_is_on_where_mistakes_are_looked_for(
    variant: str, checks: bool, tmp_path: Path
) -> None:
    kernel = Kernel(variant, tmp_path, tmp_path, tmp_path, "6.12")
    words = command_line.words(kernel, Guest(accel="tcg", append=("mine",)))
    assert ("page_poison=1" in words) is ("loglevel=8" in words) is checks
    assert words[-1] == "mine"


def options(guest: Guest) -> str:
    return " ".join(qemu_options.machine(guest))


def test_memory_is_preallocated_on_every_node() -> None:
    words = options(Guest(cpus=4, nodes=2, memory_only_nodes=1, memory_mb=3072, accel="tcg"))
    assert re.findall(r"id=(ram\d),size=(\d+)M,prealloc=on", words) == [
        ("ram0", "1024"),
        ("ram1", "1024"),
        ("ram2", "1024"),
    ]
    assert re.findall(r"node,nodeid=(\d),memdev=ram\d(,cpus=[\d-]+)?", words) == [
        ("0", ",cpus=0-1"),
        ("1", ",cpus=2-3"),
        ("2", ""),
    ]
    assert "dist,src=0,dst=1,val=20" in words and "dist,src=0,dst=2,val=40" in words


def test_memory_that_can_be_taken_out_has_room_of_its_own() -> None:
    words = options(Guest(memory_mb=3072, modules=2, accel="tcg"))
    assert "-m slots=2,maxmem=3328M" in words
    assert re.findall(r"id=(module\d),size=(\d+)M", words) == [
        ("module0", "128"),
        ("module1", "128"),
    ]
    assert words.count("pc-dimm") == 2 and words.count(",node=0") == 2
    assert "pc-dimm" not in options(Guest(accel="tcg"))


def test_memory_without_cpus_is_slower_by_the_tables_of_the_firmware() -> None:
    words = options(Guest(cpus=4, nodes=2, memory_only_nodes=1, memory_mb=3072, accel="tcg"))
    assert "-machine hmat=on" in words
    # The nearest node with CPUs, by node.
    assert re.findall(r"nodeid=(\d)\S+initiator=(\d)", words) == [
        ("0", "0"),
        ("1", "1"),
        ("2", "0"),
    ]
    for kind in ("latency", "bandwidth"):
        found = re.findall(
            rf"initiator=(\d),target=(\d),hierarchy=memory,data-type=access-{kind},{kind}=(\d+)",
            words,
        )
        figures = {(int(a), int(b)): int(figure) for a, b, figure in found}
        assert set(figures) == {(a, b) for a in (0, 1) for b in (0, 1, 2)}
        assert figures[0, 0] == figures[0, 1] == figures[1, 1]
        slower = figures[0, 2] > figures[0, 1]
        assert slower if kind == "latency" else figures[0, 2] < figures[0, 1]
    assert "hmat" not in options(Guest(cpus=4, nodes=2, memory_mb=3072, accel="tcg"))


@pytest.mark.parametrize("total", [1024, 3000, 3072, 4097])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_memory_adds_up(total: int, nodes: int) -> None:
    shares = Guest(nodes=nodes, memory_mb=total).node_memory_mb()
    assert sum(shares) == total and len(shares) == nodes
    assert all(share % 128 == 0 for share in shares[:-1]) and min(shares) > 0


@pytest.mark.parametrize(
    ("cpus", "nodes", "expected"),
    [
        (2, 2, [[0], [1]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (1, 2, [[0], []]),
        (2, 3, [[0], [1], []]),
        (3, 1, [[0, 1, 2]]),
    ],
)
def test_cpus_are_spread(cpus: int, nodes: int, expected: list[list[int]]) -> None:
    assert [list(part) for part in Guest(cpus=cpus, nodes=nodes).node_cpus()] == expected


@pytest.mark.parametrize(
    ("cpus", "nodes", "expected"),
    [
        (4, 2, "sockets=2,cores=2,threads=1"),
        (5, 2, "sockets=5,cores=1,threads=1"),
        (1, 2, "sockets=1,cores=1,threads=1"),
        (4, 1, "sockets=1,cores=4,threads=1"),
    ],
)
def test_no_two_nodes_share_a_socket(cpus: int, nodes: int, expected: str) -> None:
    assert Guest(cpus=cpus, nodes=nodes).default_topology() == expected


def test_emulation_has_no_byte_wise_copies() -> None:
    assert "-cpu max,-erms,-fsrm" in options(Guest(accel="tcg"))
    assert "tcg,thread=multi" in options(Guest(accel="tcg"))
    counted = options(Guest(cpus=1, icount=True, accel="tcg"))
    assert "-icount shift=0,sleep=off" in counted and "tcg,thread=single" in counted
    assert "tcg" not in options(Guest(accel="kvm"))


def test_processors_with_dies_have_no_leaf_by_which_qemu_breaks_off() -> None:
    dies = "sockets=1,dies=2,cores=2,threads=1"
    (cpu,) = re.findall(r"-cpu (\S+)", options(Guest(cpus=4, topology=dies, accel="tcg")))
    assert cpu.endswith(",level=13,vendor=GenuineIntel")
    assert "level=" not in options(Guest(accel="tcg"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpus": 0},
        {"nodes": 0},
        {"memory_only_nodes": -1},
        {"modules": -1},
        {"accel": "xen"},
        {"icount": True, "cpus": 2},
        {"icount": True, "cpus": 1, "accel": "kvm"},
        {"memory_mb": 300, "nodes": 2},
        {"topology": "dies=2; rm"},
    ],
)
def test_impossible_machine_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PagehaulError):
        Guest(**wrong)  # type: ignore[arg-type]


def test_machine_larger_than_the_host_is_refused() -> None:
    with pytest.raises(PagehaulError, match="give it less memory"):
        Guest(memory_mb=1 << 30).check_fits()


@pytest.fixture
def device(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "_KVM", tmp_path / "kvm")
    monkeypatch.setattr(kvm, "_KVM_FIRST_LINE_S", 1.0)
    monkeypatch.setattr(kvm, "_KVM_BOOT_S", 2.0)
    (tmp_path / "kvm").touch()


BOOTS = "echo Linux version 6.12; echo VFS: Unable to mount root fs on unknown-block; sleep 98761"


@pytest.mark.parametrize(
    ("script", "works"),
    [
        (BOOTS, True),
        ("sleep 98761", False),
        ("echo SeaBIOS; sleep 98761 & sleep 98761", False),
        ("echo Linux version 6.12; sleep 98761", False),
        ("echo Linux version 6.12; while :; do echo noise; sleep 0.1; done", False),
        ("echo Linux version 6.12; exit 1", False),
        ("exit 1", False),
    ],
)
def test_kvm_works_when_a_kernel_boots(
    device: None, fake_command: Fake, alive: Callable[[str], bool], script: str, works: bool
) -> None:
    # Others of these tests may run at the same time, in other processes.
    sleep = f"sleep {os.getpid()}.98761"
    fake_command("qemu-system-x86_64", script.replace("sleep 98761", sleep))
    started = time.monotonic()
    assert kvm.kvm_works(Path("bzImage")) is works
    assert time.monotonic() - started < 5
    assert not alive(sleep)


def test_kvm_is_probed_once(device: None, fake_command: Fake) -> None:
    fake_command("qemu-system-x86_64", BOOTS)
    assert kvm.kvm_works(Path("bzImage"))
    fake_command("qemu-system-x86_64", "exit 1")
    assert kvm.kvm_works(Path("bzImage"))


def test_no_kvm_is_not_probed(device: None, fake_command: Fake, tmp_path: Path) -> None:
    fake_command("qemu-system-x86_64", f"touch {tmp_path}/probed")
    (tmp_path / "kvm").unlink()
    assert not kvm.kvm_works(Path("bzImage"))
    assert not (tmp_path / "probed").exists()


def test_emulation_needs_a_newer_qemu_than_kvm(
    device: None, fake_command: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def ensure(command: str = "", oldest: tuple[int, int] = qemu.OLDEST) -> qemu.Qemu:
        asked.append(oldest)
        return qemu.Qemu(Path("qemu-system-x86_64"), oldest)

    monkeypatch.setattr(qemu, "ensure", ensure)
    kernel = Kernel("vanilla", Path(), Path("bzImage"), Path(), "7.3")
    for script, accel, oldest in (("exit 1", "tcg", qemu.OLDEST), (BOOTS, "kvm", qemu.ANY)):
        fake_command("qemu-system-x86_64", script)
        assert x86.prepare(kernel, Guest(memory_mb=512)).accel == accel
        assert asked == [qemu.ANY, oldest]
        asked.clear()
        next(paths.cache_dir().glob("kvm-*")).unlink()


def test_kvm_that_was_asked_for_must_work(device: None, fake_command: Fake) -> None:
    fake_command("qemu-system-x86_64", "exit 1")
    with pytest.raises(PagehaulError, match="use TCG"):
        x86._accelerator(Guest(accel="kvm"), Path("bzImage"))
    assert x86._accelerator(Guest(), Path("bzImage")) == "tcg"


@pytest.mark.parametrize(
    ("cpus", "dies", "each"), [(64, 4, 8), (32, 4, 4), (24, 4, 3), (16, 4, 2), (8, 4, 1), (4, 2, 1)]
)
def test_dies_of_a_model_are_its_caches(cpus: int, dies: int, each: int) -> None:
    zen3 = replace(models.load("plain"), node_caches=4)
    guest = Guest(cpus=cpus, model=zen3)
    assert guest.default_topology() == f"sockets=2,dies={dies},cores={each},threads=1"
    assert guest.cache_cpus() == each


def test_caches_that_do_not_divide_a_socket() -> None:
    zen3 = replace(models.load("plain"), node_caches=4)
    assert Guest(cpus=10, model=zen3).default_topology() == "sockets=2,cores=5,threads=1"
    assert Guest(cpus=12, model=zen3).cache_cpus() == 2
    assert Guest(cpus=2, model=zen3).cache_cpus() == 1
    assert Guest(cpus=4, topology="sockets=1,dies=2,cores=2,threads=1").cache_cpus() == 2
