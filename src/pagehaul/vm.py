# SPDX-License-Identifier: GPL-2.0-only
"""Boots a kernel and runs a command in it: under virtme-ng, or for arm64 as arm64.py says.

Under virtme-ng the guest sees the host's files, read-only, at the same paths. The command's stdout,
stderr and exit status come back over virtio ports of our own, found by their names in sysfs,
because virtme-ng's need udev in the host's root and share a descriptor with the console; the
kernel's console has the serial line to itself, and is watched for anything a healthy kernel does
not print.
"""

import itertools
import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.markup import escape

from pagehaul import arm64, host, ui
from pagehaul.arches import X86_64
from pagehaul.build import CHECKING_VARIANTS, Kernel
from pagehaul.errors import PagehaulError
from pagehaul.paths import REPO, cache_dir, log_dir
from pagehaul.ui import kill_group

# Console lines that an error repeats.
_TAIL_LINES = 25

# How often a guest is booted, at most, while QEMU's emulation brings it down.
_BOOTS = 6

# Seconds a guest may take to power off once its command has ended.
_POWER_OFF_S = 60.0

# Seconds a guest may go on after it reported a hang, so that the reports of all tasks get out.
_HANG_GRACE_S = 15.0

# The probe of KVM: the device, and the seconds that it gives a kernel to print its first line, and
# to boot to its end.
_KVM = Path("/dev/kvm")
_KVM_FIRST_LINE_S = 5.0
_KVM_BOOT_S = 20.0

# What a healthy kernel never prints. The patterns match at the start of a message, so that a
# program that quotes such a line in a message of its own does not count.
_SPLATS = re.compile(
    r"Kernel panic - not syncing"
    r"|Oops: |Oops\[#|Internal error: "
    r"|(?:watchdog: )?BUG[: ]"
    r"|kernel BUG at "
    r"|WARNING: "
    r"|general protection fault"
    r"|[Uu]nable to handle (?:kernel|page fault)"
    r"|INFO: (?:task .* blocked for more than|possible |suspicious |trying to register )"
    r"|(?:rcu: )?INFO: rcu_\w+ .*stall"
    r"|watchdog: .*hard LOCKUP"
    r"|UBSAN: |KCSAN: "
    r"|kmemleak: \d+ new suspected memory leaks"
    r"|pagealloc: (?:memory corruption|single bit error)"
    # Who looks for mistakes, and gives up: from there on its silence says nothing.
    r"|DMA-API: (?:cacheline tracking ENOMEM|debugging out of memory)"
    r"|ODEBUG: Out of memory"
    r"|kmemleak: (?:Memory pool empty|Cannot allocate a kmemleak_object|.*\bdisabled\b)"
    r"|turning off the locking correctness validator"
)
_HANGS = re.compile(r"INFO: task|(?:rcu: )?INFO: rcu_|watchdog: ")
# RCU's report of a stall: whom it waits for, with what it says of CPUs that idle, and the CPU on
# which its own thread should run.
_STALL = re.compile(r"rcu: INFO: rcu_\w+ detected stalls")
_STALLED = re.compile(
    r"rcu: \s+(?:(\d+)-(\S)\S+ \(.* fqs=\d+( \(false positive\?\))?|Tasks blocked )"
)
_STARVED = re.compile(r"rcu: rcu_\w+ kthread starved for .* ->cpu=(\d+)$")
# "[    1.234567] ", with the caller's id where the kernel prints one: "[    1.2][   T12] ".
_TIMESTAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")

# Runs in the guest as root. The command writes into pipes that `cat` empties into the ports: a port
# can be opened once only, and programs reopen their own /dev/stdout. A daemon that the command left
# behind may hold a pipe open for ever, hence the bound on the wait.
_GUEST_SCRIPT = """\
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
for port in /sys/class/virtio-ports/*; do
    read -r name < "$port/name"
    case $name in
    pagehaul.stdout) stdout=/dev/${port##*/} ;;
    pagehaul.stderr) stderr=/dev/${port##*/} ;;
    pagehaul.status) status=/dev/${port##*/} ;;
    esac
done
pipes=$(mktemp -d /run/pagehaul.XXXXXX)
mkfifo "$pipes/stdout" "$pipes/stderr"
cat < "$pipes/stdout" > "$stdout" & out=$!
cat < "$pipes/stderr" > "$stderr" & err=$!
(cd -- @CWD@ && exec @COMMAND@) < @STDIN@ > "$pipes/stdout" 2> "$pipes/stderr"
code=$?
(sleep 5; kill $out $err) 2> /dev/null &
wait $out $err
echo $code > "$status"
"""


# Runs QEMU and writes down its exit status, see _wrapper().
_WRAPPER = """\
#!/bin/sh
@QEMU@ "$@"
status=$?
echo $status > "$0.status"
exit $status
"""


class GuestError(PagehaulError):
    """A guest did not start, crashed, complained, hung or took too long."""


class EmulationBroke(GuestError):
    """The emulation brought the guest down, not the kernel.

    The kernel patches its code while other CPUs run it, with a breakpoint in place meanwhile. QEMU
    may run the breakpoint from a translation that is out of date, and the kernel, which knows of
    none, dies of it: "Oops: int3". A processor does not do that. It happens about once in a hundred
    guests, mostly while the kernel boots. Less often QEMU itself crashes while a guest maps its PCI
    devices, by an assertion of its own or by touching memory that it does not have. Once an idle
    CPU of the unmodified kernel slept on for two minutes though it had been woken or a timer of its
    was due: RCU, whose thread waited for that, complained of nobody but that CPU, and said itself
    that it might be wrong.
    """

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began  # whether the guest's command had begun


# MiB of a module of memory: of a block, as the kernel counts.
MODULE_MB = 128


@dataclass(frozen=True)
class Guest:
    """The machine to boot.

    cpus are spread evenly over the first `nodes` nodes, whole runs of neighbours to one node, and
    memory_mb (MiB) evenly over all nodes; memory_only_nodes come after those with CPUs, further
    away from every other node, as CXL memory is. modules of MODULE_MB each are on the first node
    besides, and can be taken out while the guest runs. topology is the tail of qemu's -smp, such as
    "sockets=1,dies=2,cores=2,threads=1". accel "auto" is KVM where a guest really boots on it, else
    TCG. icount counts one nanosecond an instruction, on one CPU under TCG. in_turn has all CPUs
    emulated by one thread, where the kernel's code is patched so often that QEMU would trip over
    it (see EmulationBroke). append is for the kernel command line.
    """

    cpus: int = 2
    nodes: int = 2
    memory_only_nodes: int = 0
    modules: int = 0
    memory_mb: int = X86_64.memory_mb
    topology: str | None = None
    accel: str = "auto"
    icount: bool = False
    in_turn: bool = False
    append: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise PagehaulError for a machine that cannot be."""
        if self.cpus < 1:
            raise PagehaulError("a guest needs at least one CPU")
        if self.nodes < 1 or self.memory_only_nodes < 0:
            raise PagehaulError("a guest needs at least one node with CPUs")
        if self.modules < 0:
            raise PagehaulError("a guest has no fewer than 0 modules of memory")
        if self.accel not in ("auto", "kvm", "tcg"):
            raise PagehaulError(f"unknown accelerator {self.accel!r}: use auto, kvm or tcg")
        if self.icount and (self.cpus != 1 or self.accel == "kvm"):
            raise PagehaulError("counting instructions needs one CPU and TCG")
        if self.memory_mb < 256 * (self.nodes + self.memory_only_nodes):
            raise PagehaulError("a guest needs at least 256 MiB a node")
        if self.topology is not None and not re.fullmatch(r"\w+=\d+(,\w+=\d+)*", self.topology):
            raise PagehaulError(
                f"topology {self.topology!r} is not like sockets=1,dies=2,cores=2,threads=1"
            )

    def total_mb(self) -> int:
        """MiB of all that it has, modules and all."""
        return self.memory_mb + self.modules * MODULE_MB

    def node_memory_mb(self) -> list[int]:
        """MiB of each node; multiples of 128, the size of a memory block, but for the last."""
        count = self.nodes + self.memory_only_nodes
        share = self.memory_mb // count // 128 * 128
        return [share] * (count - 1) + [self.memory_mb - share * (count - 1)]

    def node_cpus(self) -> list[range]:
        """CPUs of each node that may have some; empty where there are more nodes than CPUs."""
        bounds = [-(-self.cpus * node // self.nodes) for node in range(self.nodes + 1)]
        return [range(low, high) for low, high in itertools.pairwise(bounds)]

    def default_topology(self) -> str:
        """Tail of qemu's -smp: a socket a node, so that no two nodes share a cache."""
        sockets = sum(1 for cpus in self.node_cpus() if cpus)
        if self.cpus % sockets:
            sockets = self.cpus
        return f"sockets={sockets},cores={self.cpus // sockets},threads=1"


@dataclass(frozen=True)
class Result:
    """What a guest's command gave.

    returncode is the command's, stdout and stderr its output; log is the console's log; seconds is
    the guest's whole life, boot included; accel is what it ran on, "kvm" or "tcg".
    """

    returncode: int
    stdout: str
    stderr: str
    log: Path
    seconds: float
    accel: str


def run(
    kernel: Kernel,
    guest: Guest,
    command: Sequence[str],
    *,
    timeout: float,
    log: Path | None = None,
    stdin: str | None = None,
    on_output: Callable[[str, bytes], None] | None = None,
    on_restart: Callable[[], None] | None = None,
    allow: Sequence[str] = (),
    watched: Sequence[Path] = (),
    stop: threading.Event | None = None,
) -> Result:
    """Boot `kernel` in `guest`, run `command` as root with the repository as working directory.

    A guest for arm64 sees no files of the host, and its working directory is its root.

    timeout, in seconds, covers the boot. on_output gets ("stdout"|"stderr", data) as it comes.
    allow are regular expressions of console messages that would be an error otherwise. watched are
    directories in which the guest is to see what changes on the host meanwhile. stop is for another
    thread to set, to end the guest. A non-zero exit status is the caller's business; GuestError is
    raised, with the last lines of the console, when the kernel panics, oopses, warns or hangs, when
    the guest ends before its command, and when the time is up or the guest is stopped. The
    console's log is kept in any case.

    A guest that the emulation itself brings down is booted again, and its log kept beside that of
    the next one; once the command has begun, only if there is on_restart, which is told to forget
    the output so far.
    """
    guest = _prepare(kernel, guest)
    if log is None:
        log = log_dir() / f"guest-{kernel.label}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    log = log.absolute()
    log.parent.mkdir(parents=True, exist_ok=True)
    for boot in itertools.count(1):
        work = Path(tempfile.mkdtemp(prefix="guest-", dir=cache_dir()))
        try:
            return _run(
                kernel, guest, command, timeout, log, stdin, on_output, allow, watched, work, stop
            )
        except EmulationBroke as broken:
            if boot == _BOOTS or (broken.began and on_restart is None):
                raise
            if broken.began and on_restart is not None:
                on_restart()
            kept = log.with_suffix(f".boot-{boot}.log")
            log.replace(kept)
            ui.console.print(
                f"The emulation broke the guest, see {escape(str(kept))}; once more",
                soft_wrap=True,
            )
        finally:
            shutil.rmtree(work, ignore_errors=True)
    raise AssertionError("not reached")


def _run(
    kernel: Kernel,
    guest: Guest,
    command: Sequence[str],
    timeout: float,
    log: Path,
    stdin: str | None,
    on_output: Callable[[str, bytes], None] | None,
    allow: Sequence[str],
    watched: Sequence[Path],
    work: Path,
    stop: threading.Event | None,
) -> Result:
    x86 = kernel.arch is X86_64
    if x86:
        boot = _boot_x86(kernel, guest, command, stdin, watched, work)
    else:
        boot = _boot_arm64(kernel, guest, command, stdin, work)
    streams = {name: bytearray() for name in ("stdout", "stderr", "status")}
    started = time.monotonic()
    deadline = started + timeout
    with log.open("wb") as log_file, selectors.DefaultSelector() as selector:
        log_file.write(f"$ {shlex.join(boot)}\n".encode())
        log_file.flush()
        console = _Console(allow)
        process = subprocess.Popen(
            boot,
            env=_environment() if x86 else None,
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        fifos: dict[str, int] = {}
        overdue = f"not finished after {timeout:.0f} s"
        expired = False
        try:
            assert process.stdout is not None
            selector.register(process.stdout.fileno(), selectors.EVENT_READ, "console")
            for name in streams:
                # Non-blocking: qemu opens its end later, or never.
                fifos[name] = os.open(work / name, os.O_RDONLY | os.O_NONBLOCK)
                selector.register(fifos[name], selectors.EVENT_READ, name)
            alive = True
            while alive and not expired:
                for key, _ in selector.select(1.0):
                    data = os.read(key.fd, 65536)
                    if key.data == "console":
                        alive = bool(data)
                        log_file.write(data)
                        log_file.flush()
                        console.feed(data)
                    elif data:
                        streams[key.data] += data
                        if on_output is not None and key.data != "status":
                            on_output(key.data, data)
                    else:
                        selector.unregister(key.fd)
                now = time.monotonic()
                if console.hung and not overdue.startswith("hung"):
                    overdue = "hung"
                    deadline = min(deadline, now + _HANG_GRACE_S)
                elif streams["status"].endswith(b"\n") and overdue.startswith("not finished"):
                    overdue = f"not powered off {_POWER_OFF_S:.0f} s after its command ended"
                    deadline = now + _POWER_OFF_S
                elif stop is not None and stop.is_set():
                    overdue, deadline = "stopped", now
                expired = alive and now >= deadline
            for name, descriptor in fifos.items():
                _drain(descriptor, name, streams[name], on_output)
        finally:
            kill_group(process)
            if process.stdout is not None:
                process.stdout.close()
            for descriptor in fifos.values():
                os.close(descriptor)
    seconds = time.monotonic() - started
    what = f"the {kernel.label} guest ({guest.accel})"
    if console.splat is not None:
        complaint = console.report(f"{what}: the kernel complained: {console.splat}", log)
        if guest.accel == "tcg" and console.blames_emulation():
            raise EmulationBroke(complaint, began=any(streams.values()))
        raise GuestError(complaint)
    if expired:
        raise GuestError(console.report(f"{what}: {overdue}", log))
    status = streams["status"].decode().strip()
    if not status.isdigit():
        report = console.report(f"{what} ended before its command did", log)
        if _crashed(work):
            raise EmulationBroke(report, began=any(streams.values()))
        raise GuestError(report)
    return Result(
        returncode=int(status),
        stdout=streams["stdout"].decode(errors="replace"),
        stderr=streams["stderr"].decode(errors="replace"),
        log=log,
        seconds=seconds,
        accel=guest.accel,
    )


def _wrapper(work: Path, qemu: str) -> Path:
    """Make a program that runs qemu, and writes down how that ended: virtme-ng does not tell."""
    path = work / "qemu"
    path.write_text(_WRAPPER.replace("@QEMU@", qemu), encoding="utf-8")
    path.chmod(0o755)
    return path


def _crashed(work: Path) -> bool:
    """Whether a signal ended qemu: nothing that a guest does can make it end that way."""
    status = work / "qemu.status"
    return status.exists() and int(status.read_text(encoding="utf-8")) > 128


def _prepare(kernel: Kernel, guest: Guest) -> Guest:
    """Return `guest` as it can be had; PagehaulError if it cannot."""
    for group in kernel.arch.guest:
        host.need_for(group)
    if kernel.arch is X86_64:
        accel = _accelerator(guest, kernel.image)
    else:
        _check_board(guest)
        accel = "tcg"
    _check_memory(guest)
    return replace(guest, accel=accel)


def _script(command: Sequence[str], cwd: str, stdin: str) -> str:
    """Return the script that runs in the guest."""
    return (
        _GUEST_SCRIPT.replace("@CWD@", shlex.quote(cwd))
        .replace("@STDIN@", shlex.quote(stdin))
        .replace("@COMMAND@", shlex.join(command))
    )


def _boot_x86(
    kernel: Kernel,
    guest: Guest,
    command: Sequence[str],
    stdin: str | None,
    watched: Sequence[Path],
    work: Path,
) -> list[str]:
    """Return the command that boots a guest that runs `command`."""
    stdin_file = Path("/dev/null")
    if stdin is not None:
        stdin_file = work / "stdin"
        stdin_file.write_text(stdin, encoding="utf-8")
    script = work / "run.sh"
    script.write_text(_script(command, str(REPO), str(stdin_file)), encoding="utf-8")
    ports = _ports(work, "virtio-serial-pci")
    vng = _vng(kernel, guest, [*_machine(guest), *ports], [REPO, work])
    # virtme-ng hands it to a shell.
    vng.append(f"--qemu={shlex.quote(str(_wrapper(work, 'qemu-system-x86_64')))}")
    # The guest has overlays over /home and other directories. They remember what is not there.
    vng += [f"--rodir={path}" for path in watched]
    return [*vng, "--verbose", "--exec", f"sh {shlex.quote(str(script))}"]


def _boot_arm64(
    kernel: Kernel, guest: Guest, command: Sequence[str], stdin: str | None, work: Path
) -> list[str]:
    """Return the command that boots a guest that runs `command`."""
    files = {arm64.SCRIPT: _script(command, "/", "/dev/null" if stdin is None else arm64.STDIN)}
    if stdin is not None:
        files[arm64.STDIN] = stdin
    initramfs = arm64.make_initramfs(kernel, files, work)
    words = _kernel_command_line(kernel, guest)
    qemu, *options = arm64.command(kernel, guest.nodes, guest.memory_mb, words, initramfs)
    return [str(_wrapper(work, qemu)), *options, *_ports(work, "virtio-serial-device")]


def _drain(
    descriptor: int,
    name: str,
    into: bytearray,
    on_output: Callable[[str, bytes], None] | None,
) -> None:
    """Read what the guest's last moments left in a pipe."""
    while True:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        if not data:
            return
        into += data
        if on_output is not None and name != "status":
            on_output(name, data)


class _Console:
    """The console of a guest: its lines, and the first one that says that it is not well."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allow = [re.compile(pattern) for pattern in allow]
        self._rest = b""
        self._lines: list[str] = []
        self._splat_line = 0
        self.splat: str | None = None
        self._more_splats = False
        self.hung = False

    def feed(self, data: bytes) -> None:
        """Take what the console printed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace").rstrip("\r"))

    def _line(self, line: str) -> None:
        self._lines.append(line)
        message = _TIMESTAMP.sub("", line)
        if not _SPLATS.match(message) or any(p.search(message) for p in self._allow):
            return
        self.hung = self.hung or bool(_HANGS.match(message))
        if self.splat is None:
            self.splat = message
            self._splat_line = len(self._lines) - 1
        else:
            self._more_splats = True

    def blames_emulation(self) -> bool:
        """Whether a processor does not do what the first complaint is about: see EmulationBroke."""
        if self.splat is None:
            return False
        return self.splat.startswith("Oops: int3") or self._slept_on()

    def _slept_on(self) -> bool:
        """Whether a stall, and nothing else, is complained of, which is that of idle CPUs only.

        RCU's own thread has to be due on one of them. "." is for a CPU that is online.
        """
        messages = [_TIMESTAMP.sub("", line) for line in self._lines[self._splat_line :]]
        if self._more_splats or not _STALL.match(messages[0]):
            return False
        stalled = [found for message in messages if (found := _STALLED.match(message))]
        starved = {found[1] for message in messages if (found := _STARVED.match(message))}
        idle = {found[1] for found in stalled if found[2] == "." and found[3]}
        return bool(starved) and starved <= idle and len(idle) == len(stalled)

    def report(self, what: str, log: Path) -> str:
        """Return `what`, where the log is, and the complaint or else the last lines."""
        start = max(0, len(self._lines) - _TAIL_LINES)
        if self.splat is not None:
            start = self._splat_line
        lines = self._lines[start : start + _TAIL_LINES]
        return f"{what}; the whole log is in {log}" + "".join(f"\n  | {line}" for line in lines)


def shell(kernel: Kernel, guest: Guest) -> int:
    """Boot `kernel` in `guest` with root's shell on this terminal; its exit status."""
    if kernel.arch is not X86_64:
        raise PagehaulError(f"no shell on {kernel.arch.name}; `pagehaul run` runs commands there")
    guest = _prepare(kernel, guest)
    command = [*_vng(kernel, guest, _machine(guest), [REPO]), "--user", "root"]
    return subprocess.run(command, env=_environment(), cwd=REPO, check=False).returncode


def _vng(kernel: Kernel, guest: Guest, qemu: Sequence[str], shared: Sequence[Path]) -> list[str]:
    command = [
        str(_vng_path()),
        f"--run={kernel.image}",
        "--force-9p",
        "--disable-microvm",
        "--name=pagehaul",
        f"--cpus={guest.cpus},{guest.topology or guest.default_topology()}",
        f"--memory={guest.memory_mb}M",
        f"--append={shlex.join(_kernel_command_line(kernel, guest))}",
        f"--qemu-opts={shlex.join(qemu)}",
    ]
    if guest.accel == "tcg":
        command.append("--disable-kvm")
    return command + [f"--rodir={path}" for path in shared if _hidden_in_guest(path)]


def _vng_path() -> Path:
    beside = Path(sys.executable).parent / "vng"
    found = beside if beside.exists() else shutil.which("vng")
    if found is None:
        raise PagehaulError("virtme-ng (vng) is not installed; start ./pagehaul, which installs it")
    return Path(found)


def _environment() -> dict[str, str]:
    # vng finds virtme-run by PATH, and reads defaults of the user's that would change the guest.
    return {
        **os.environ,
        "PATH": f"{_vng_path().parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(_made(cache_dir() / "virtme-ng")),
        "XDG_CONFIG_HOME": str(_made(cache_dir() / "virtme-ng" / "config")),
    }


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _hidden_in_guest(path: Path) -> bool:
    """Whether the guest mounts an empty directory over a part of the host that has `path`."""
    hidden = ("/run", "/dev", "/var/tmp", "/var/log", "/var/cache")
    return any(path.is_relative_to(directory) for directory in hidden)


def _kernel_command_line(kernel: Kernel, guest: Guest) -> list[str]:
    words = ["panic=-1"]
    if guest.accel == "tcg":
        words += [
            # The host runs other things besides: a virtual CPU may not run for seconds. For that
            # reason, and because emulation is 10 times slower, what is a hang on hardware after
            # 20 s (soft lockup), 21 s (RCU) or 120 s (tasks) is one here after 120 s, 120 s and
            # 240 s.
            "watchdog_thresh=60",
            "rcupdate.rcu_cpu_stall_timeout=120",
            "sysctl.kernel.hung_task_timeout_secs=240",
        ]
    if guest.accel == "tcg" and kernel.arch is X86_64:
        words += [
            # The clock's watchdog would call a CPU that does not run for seconds a bad TSC, and
            # switch to a slow clock.
            "tsc=reliable",
            # Probing a PS/2 mouse that is not used takes a third of a second.
            "psmouse.proto=bare",
        ]
    if kernel.variant in CHECKING_VARIANTS:
        words += [
            # Compiled in, it is off unless it is asked for.
            "page_poison=1",
            # lockdep says at this level only that it has no room left and turns itself off.
            "loglevel=8",
        ]
    return [*words, *guest.append]


def _machine(guest: Guest) -> list[str]:
    """Qemu's options for processors, memory and nodes."""
    options: list[str] = []
    if guest.accel == "tcg":
        # With erms and fsrm the kernel copies by `rep movsb`, which TCG runs byte by byte: nothing
        # could be concluded from such copies.
        cpu = "max,-erms,-fsrm"
        if "dies=" in (guest.topology or ""):
            # Linux looks for dies where qemu describes them only on an Intel CPU.
            cpu += ",vendor=GenuineIntel"
        options += ["-cpu", cpu]
        one = guest.icount or guest.in_turn
        options += ["-accel", f"tcg,thread={'single' if one else 'multi'}"]
        if guest.icount:
            options += ["-icount", "shift=0,sleep=off"]
    cpus = guest.node_cpus()
    for node, size in enumerate(guest.node_memory_mb()):
        # The first touch of a page on the host costs more than its migration in the guest.
        options += ["-object", f"memory-backend-ram,id=ram{node},size={size}M,prealloc=on"]
        described = f"node,nodeid={node},memdev=ram{node}"
        if node < len(cpus) and cpus[node]:
            described += f",cpus={cpus[node].start}-{cpus[node].stop - 1}"
        if guest.memory_only_nodes:
            # The node with CPUs that is nearest: itself, or the first one.
            nearest = node if node < len(cpus) and cpus[node] else 0
            described += f",initiator={nearest}"
        options += ["-numa", described]
    if guest.modules:
        options += _modules(guest)
    total = guest.nodes + guest.memory_only_nodes
    if guest.memory_only_nodes:
        options += _performance(guest)
    for source in range(total):
        for target in range(total):
            if source != target:
                far = max(source, target) >= guest.nodes
                options += ["-numa", f"dist,src={source},dst={target},val={40 if far else 20}"]
    return options


def _modules(guest: Guest) -> list[str]:
    """Qemu's options for memory that the guest's kernel can have taken out of the machine."""
    # Together with the size, which vng gives.
    options = ["-m", f"slots={guest.modules},maxmem={guest.total_mb()}M"]
    for number in range(guest.modules):
        options += ["-object", f"memory-backend-ram,id=module{number},size={MODULE_MB}M"]
        options += ["-device", f"pc-dimm,id=dimm{number},memdev=module{number},node=0"]
    return options


def _performance(guest: Guest) -> list[str]:
    """Qemu's options for the tables (HMAT) by which the kernel puts memory into tiers."""
    options = ["-machine", "hmat=on"]
    with_cpus = [node for node, cpus in enumerate(guest.node_cpus()) if cpus]
    for initiator in with_cpus:
        for target in range(guest.nodes + guest.memory_only_nodes):
            slow = target >= guest.nodes
            described = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
            latency, bandwidth = (300, "20G") if slow else (100, "60G")
            options += ["-numa", f"{described},data-type=access-latency,latency={latency}"]
            options += ["-numa", f"{described},data-type=access-bandwidth,bandwidth={bandwidth}"]
    return options


def _ports(work: Path, device: str) -> list[str]:
    """Qemu's options for the command's streams, each a named pipe in `work`, on a `device`."""
    options = ["-device", f"{device},id=pagehaul"]
    for name in ("stdout", "stderr", "status"):
        os.mkfifo(work / name)
        path = str(work / name).replace(",", ",,")
        options += ["-chardev", f"file,id=pagehaul-{name},path={path}"]
        port = f"virtserialport,bus=pagehaul.0,chardev=pagehaul-{name},name=pagehaul.{name}"
        options += ["-device", port]
    return options


def _check_memory(guest: Guest) -> None:
    """Raise PagehaulError when the host cannot hold the guest, which is allocated at once."""
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    if available is not None and guest.total_mb() > int(available[1]) // 1024:
        raise PagehaulError(
            f"a guest of {guest.total_mb()} MiB does not fit into the {int(available[1]) // 1024} "
            "MiB that this machine has free; give it less memory"
        )


def _check_board(guest: Guest) -> None:
    """Raise PagehaulError for a machine that the board for arm64 cannot be."""
    if guest.cpus != arm64.CPUS:
        raise PagehaulError(f"a guest for arm64 has {arm64.CPUS} CPUs")
    if guest.memory_only_nodes or guest.topology is not None:
        raise PagehaulError("a guest for arm64 has neither a topology nor nodes without CPUs")
    if guest.accel == "kvm":
        raise PagehaulError("a guest for arm64 is emulated: leave --accel out")


def _accelerator(guest: Guest, image: Path) -> str:
    if guest.icount or guest.accel == "tcg":
        return "tcg"
    works = kvm_works(image)
    if guest.accel == "kvm" and not works:
        raise PagehaulError("no guest boots on this machine's KVM; use TCG")
    return "kvm" if works else "tcg"


def kvm_works(image: Path) -> bool:
    """Whether the kernel `image` really boots on KVM here, to where it misses a root file system.

    A /dev/kvm that exists says nothing: behind it there may be a guest that runs SeaBIOS and then
    hangs. Bounded to 5 s for the kernel's first line, and to 20 s in all. The answer is kept until
    the host boots again.
    """
    if not os.access(_KVM, os.R_OK | os.W_OK):
        return False
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = cache_dir() / f"kvm-{boot_id}"
    if not known.exists():
        for stale in cache_dir().glob("kvm-*"):
            stale.unlink(missing_ok=True)
        answer = _boots_on_kvm(image)
        temporary = known.with_suffix(f".{os.getpid()}")
        temporary.write_text("yes" if answer else "no")
        temporary.replace(known)
    return known.read_text() == "yes"


def _boots_on_kvm(image: Path) -> bool:
    command = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-machine", "q35"]
    command += ["-smp", "2", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none"]
    command += ["-no-reboot", "-serial", "stdio", "-kernel", str(image)]
    command += ["-append", "earlyprintk=serial,ttyS0,115200 console=ttyS0 panic=-1"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = time.monotonic()
    seen = b""
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                bound = _KVM_BOOT_S if b"Linux version" in seen else _KVM_FIRST_LINE_S
                left = started + bound - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return False
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return False
                seen += data
                if b"VFS: Unable to mount root fs" in seen or b"VFS: Cannot open root" in seen:
                    return True
    finally:
        kill_group(process)
        if process.stdout is not None:
            process.stdout.close()
