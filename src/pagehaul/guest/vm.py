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

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.guest import initramfs, kvm, qemu, qemu_options, virtual_time
from pagehaul.guest.boards import arm64
from pagehaul.guest.console import Console
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.kernel.arches import X86_64
from pagehaul.kernel.build import CHECKING_VARIANTS, Kernel
from pagehaul.paths import REPO, cache_dir, log_dir, read_record
from pagehaul.ui import kill_group

# How often a guest is booted, at most, while QEMU's emulation brings it down.
_BOOTS = 6

# What the simulator counted, in the directory of a guest.
_REPORT = "simulation.json"

# Guests that begin in the same second have logs of their own.
_LOGS = (f"{os.getpid()}.{number}" for number in itertools.count(1))

# Seconds a guest may take to power off once its command has ended.
_POWER_OFF_S = 60.0

# Seconds a guest may go on after it reported a hang, so that the reports of all tasks get out.
_HANG_GRACE_S = 15.0

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


@dataclass(frozen=True)
class Result:
    """What a guest's command gave.

    returncode is the command's, stdout and stderr its output; log is the console's log; seconds is
    the guest's whole life, boot included, by the host's clock; accel is what it ran on, "kvm" or
    "tcg". simulation is what the simulator counted in a guest in virtual time.
    """

    returncode: int
    stdout: str
    stderr: str
    log: Path
    seconds: float
    accel: str
    simulation: dict[str, object] | None = None


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
    files: Sequence[Path] | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """Boot `kernel` in `guest`, run `command` as root with the repository as working directory.

    A guest for arm64 sees no files of the host, and its working directory is its root.

    timeout, in seconds, covers the boot. on_output gets ("stdout"|"stderr", data) as it comes.
    allow are regular expressions of console messages that would be an error otherwise. watched are
    directories in which the guest is to see what changes on the host while it runs. With files,
    programs with their libraries, the guest sees these at their paths, and nothing else of the
    host's: then a guest in virtual time has the same history each time. stop is for another thread
    to set, to end the guest. A non-zero exit status is the caller's business; GuestError is raised,
    with the last lines of the console, when the kernel panics, oopses, warns or hangs, when the
    guest ends before its command, and when the time is up or the guest is stopped. The console's
    log is kept in any case.

    A guest that the emulation itself brings down is booted again, and its log kept beside that of
    the next one; once the command has begun, only if there is on_restart, which is told to forget
    the output so far.
    """
    guest = _prepare(kernel, guest)
    if log is None:
        log = log_dir() / f"guest-{kernel.label}-{time.strftime('%Y%m%d-%H%M%S')}-{next(_LOGS)}.log"
    log = log.absolute()
    log.parent.mkdir(parents=True, exist_ok=True)
    for boot in itertools.count(1):
        work = Path(tempfile.mkdtemp(prefix="guest-", dir=cache_dir()))
        try:
            return _run(
                kernel,
                guest,
                command,
                timeout,
                log,
                stdin,
                on_output,
                allow,
                watched,
                files,
                work,
                stop,
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
    files: Sequence[Path] | None,
    work: Path,
    stop: threading.Event | None,
) -> Result:
    x86 = kernel.arch is X86_64
    if x86:
        if files is None:
            boot = _boot_x86(kernel, guest, command, stdin, watched, work)
        else:
            boot = _boot_sealed(kernel, guest, command, stdin, files, work)
    else:
        boot = _boot_arm64(kernel, guest, command, stdin, work)
    streams = {name: bytearray() for name in ("stdout", "stderr", "status")}
    started = time.monotonic()
    deadline = started + timeout
    with log.open("wb") as log_file, selectors.DefaultSelector() as selector:
        log_file.write(f"$ {shlex.join(boot)}\n".encode())
        log_file.flush()
        console = Console(allow)
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
    how = guest.accel if guest.model is None else f"virtual time, {guest.model.name}"
    what = f"the {kernel.label} guest ({how})"
    if console.splat is not None:
        complaint = console.report(f"{what}: the kernel complained: {console.splat}", log)
        if guest.accel == "tcg" and console.blames_emulation():
            raise EmulationBroke(complaint, began=any(streams.values()))
        raise GuestError(complaint)
    if expired:
        raise GuestError(console.report(f"{what}: {overdue}", log))
    status = streams["status"].decode().strip()
    if not status.isdigit():
        if guest.model is not None and not any(streams.values()):
            _check_simulation(console.text(), log)
        report = console.report(f"{what} ended before its command did", log)
        if _crashed(work):
            raise EmulationBroke(report, began=any(streams.values()))
        raise GuestError(report)
    counted = None
    if guest.model is not None:
        counted = read_record(work / _REPORT)
        if not counted:
            raise GuestError(console.report(f"{what}: the simulator left no report", log))
    return Result(
        returncode=int(status),
        stdout=streams["stdout"].decode(errors="replace"),
        stderr=streams["stderr"].decode(errors="replace"),
        log=log,
        seconds=seconds,
        accel=guest.accel,
        simulation=counted,
    )


def _check_simulation(printed: str, log: Path) -> None:
    """Raise GuestError if QEMU printed that it could not begin to simulate."""
    line = virtual_time.failure(printed)
    if line is not None:
        raise GuestError(f"virtual time did not start: {line}; the whole log is in {log}")


def _wrapper(work: Path, program: str) -> Path:
    """Make a program that runs QEMU, and writes down how that ended: virtme-ng does not tell.

    program is the script's lines that run it, up to its options.
    """
    path = work / "qemu"
    path.write_text(_WRAPPER.replace("@QEMU@", program), encoding="utf-8")
    path.chmod(0o755)
    return path


def _crashed(work: Path) -> bool:
    """Whether a signal ended qemu: nothing that a guest does can make it end that way."""
    status = work / "qemu.status"
    return status.exists() and int(status.read_text(encoding="utf-8")) > 128


def _prepare(kernel: Kernel, guest: Guest) -> Guest:
    """Return `guest` as it can be had; PagehaulError if it cannot."""
    if guest.model is not None:
        if kernel.arch is not X86_64:
            raise PagehaulError(f"no virtual time on {kernel.arch.name}")
        virtual_time.check(guest)
        _check_memory(guest)
        virtual_time.simulator()
        return replace(guest, accel="tcg")
    for group in kernel.arch.guest:
        tools.need_for(group)
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
    ports = qemu_options.ports(work, "virtio-serial-pci")
    vng = _vng(kernel, guest, ports, [REPO, work], work)
    # The guest has overlays over /home and other directories. They remember what is not there.
    vng += [f"--rodir={path}" for path in watched]
    return [*vng, "--verbose", "--exec", f"sh {shlex.quote(str(script))}"]


def _boot_sealed(
    kernel: Kernel,
    guest: Guest,
    command: Sequence[str],
    stdin: str | None,
    files: Sequence[Path],
    work: Path,
) -> list[str]:
    """Return the command that boots a guest with nothing of the host's but `files`."""
    tools.require("busybox-static", "cpio")
    busybox = Path(tools.find_command("busybox") or "busybox")
    texts = _texts(command, stdin)
    archive = initramfs.make(work, busybox, texts, initramfs.with_libraries([busybox, *files]))
    # Whatever is printed takes time on a serial line; complaints are warnings, or worse.
    words = ["console=ttyS0", "loglevel=5", "rdinit=/init", *_kernel_command_line(kernel, guest)]
    program, options = qemu.COMMAND, []
    if guest.model is not None:
        simulator = virtual_time.simulator()
        program = simulator.program()
        options = simulator.options(kernel, guest, guest.model, work / _REPORT)
        # All that is random in the guest, too.
        options += ["-seed", "1"]
        words.append("norandmaps")
    return [
        str(_wrapper(work, program)),
        *("-machine", "q35"),
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        *("-display", "none"),
        *("-serial", "stdio"),
        *("-smp", f"{guest.cpus},{guest.topology or guest.default_topology()}"),
        *("-m", f"{guest.memory_mb}M"),
        *qemu_options.machine(guest),
        *options,
        *qemu_options.ports(work, "virtio-serial-pci"),
        *("-kernel", str(kernel.image)),
        *("-initrd", str(archive)),
        *("-append", shlex.join(words)),
    ]


def _texts(command: Sequence[str], stdin: str | None) -> dict[str, str]:
    """Return the script that runs `command`, and its input, by their paths in an initramfs."""
    texts = {initramfs.SCRIPT: _script(command, "/", initramfs.STDIN if stdin else "/dev/null")}
    return texts | ({initramfs.STDIN: stdin} if stdin else {})


def _boot_arm64(
    kernel: Kernel, guest: Guest, command: Sequence[str], stdin: str | None, work: Path
) -> list[str]:
    """Return the command that boots a guest that runs `command`."""
    archive = arm64.make_initramfs(kernel, _texts(command, stdin), work)
    words = _kernel_command_line(kernel, guest)
    program, *options = arm64.command(kernel, guest.nodes, guest.memory_mb, words, archive)
    return [
        str(_wrapper(work, program)),
        *options,
        *qemu_options.ports(work, "virtio-serial-device"),
    ]


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


def shell(kernel: Kernel, guest: Guest) -> int:
    """Boot `kernel` in `guest` with root's shell on this terminal; its exit status."""
    if kernel.arch is not X86_64:
        raise PagehaulError(f"no shell on {kernel.arch.name}; `pagehaul run` runs commands there")
    guest = _prepare(kernel, guest)
    with tempfile.TemporaryDirectory(prefix="guest-", dir=cache_dir()) as work:
        command = [*_vng(kernel, guest, (), [REPO], Path(work)), "--user", "root"]
        return subprocess.run(command, env=_environment(), cwd=REPO, check=False).returncode


def _vng(
    kernel: Kernel, guest: Guest, ports: Sequence[str], shared: Sequence[Path], work: Path
) -> list[str]:
    """Return the command that boots a guest; `ports` are more options for QEMU."""
    options = [*qemu_options.machine(guest), *ports]
    program = qemu.COMMAND
    if guest.model is not None:
        simulator = virtual_time.simulator()
        options += simulator.options(kernel, guest, guest.model, work / _REPORT)
        program = simulator.program()
    command = [
        str(_vng_path()),
        f"--run={kernel.image}",
        "--force-9p",
        "--disable-microvm",
        "--name=pagehaul",
        f"--cpus={guest.cpus},{guest.topology or guest.default_topology()}",
        f"--memory={guest.memory_mb}M",
        f"--append={shlex.join(_kernel_command_line(kernel, guest))}",
        f"--qemu-opts={shlex.join(options)}",
        # virtme-ng hands it to a shell.
        f"--qemu={shlex.quote(str(_wrapper(work, program)))}",
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
    if guest.model is not None:
        words += virtual_time.kernel_words(kernel)
    elif guest.accel == "tcg":
        words += [
            # The host runs other things besides: a virtual CPU may not run for seconds. For that
            # reason, and because emulation is 10 times slower, what is a hang on hardware after
            # 20 s (soft lockup), 21 s (RCU) or 120 s (tasks) is one here after 120 s, 120 s and
            # 240 s.
            "watchdog_thresh=60",
            "rcupdate.rcu_cpu_stall_timeout=120",
            "sysctl.kernel.hung_task_timeout_secs=240",
        ]
    if guest.accel == "tcg" and guest.model is None and kernel.arch is X86_64:
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
    works = kvm.kvm_works(image)
    if guest.accel == "kvm" and not works:
        raise PagehaulError("no guest boots on this machine's KVM; use TCG")
    return "kvm" if works else "tcg"
