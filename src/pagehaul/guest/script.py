# SPDX-License-Identifier: GPL-2.0-only
"""What runs around the command: a script in the guest, and a program that runs QEMU."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pagehaul.guest import initramfs
from pagehaul.guest.task import Task

# Runs in the guest as root. The command writes into pipes that `cat` empties into the ports: a port
# can be opened once only, and programs reopen their own /dev/stdout. A daemon that the command left
# behind may hold a pipe open for ever, hence the bound on the wait. A guest that does not power off
# says what its CPUs and tasks are doing, before it is ended: a shell that has been there all the
# time, and has all that it needs, for the files of the host may be what the guest waits for. Bash
# and busybox can wait for a time by themselves.
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
# Without systemd on the host, virtme leaves it to root.
chmod 1777 /tmp
pipes=$(mktemp -d /run/pagehaul.XXXXXX)
mkfifo "$pipes/stdout" "$pipes/stderr" "$pipes/end"
if command -v bash > /dev/null; then shell=bash; else shell='busybox sh'; fi
$shell -c 'read -r line <&4; read -t @GRACE@ -r line <&4
for key in t w l; do echo $key >&3; done' \
    3> /proc/sysrq-trigger 4<> "$pipes/end" > /dev/null 2>&1 &
cat < "$pipes/stdout" > "$stdout" & out=$!
cat < "$pipes/stderr" > "$stderr" & err=$!
(cd -- @CWD@ && exec @COMMAND@) < @STDIN@ > "$pipes/stdout" 2> "$pipes/stderr"
code=$?
(sleep 5; kill $out $err) 2> /dev/null &
wait $out $err
echo $code > "$status"
echo > "$pipes/end"
"""

# Seconds a guest may take to power off once its command has ended, and before it says why not.
POWER_OFF_S = 60.0
_GRACE_S = 35

# Runs QEMU and writes down its exit status, see wrapper().
_WRAPPER = """\
#!/bin/sh
@BEFORE@@QEMU@ "$@"
status=$?
echo $status > "$0.status"
exit $status
"""


def script(command: Sequence[str], cwd: str, stdin: str) -> str:
    """Return the script that runs in the guest."""
    return (
        _GUEST_SCRIPT.replace("@CWD@", shlex.quote(cwd))
        .replace("@GRACE@", str(_GRACE_S))
        .replace("@STDIN@", shlex.quote(stdin))
        .replace("@COMMAND@", shlex.join(command))
    )


def texts(task: Task) -> dict[str, str]:
    """Return the script that runs the command, and its input, by their paths in an initramfs."""
    found = {
        initramfs.SCRIPT: script(task.command, "/", initramfs.STDIN if task.stdin else "/dev/null")
    }
    return found | ({initramfs.STDIN: task.stdin} if task.stdin else {})


def wrapper(work: Path, program: str, before: str = "") -> Path:
    """Make a program that runs QEMU, and writes down how that ended: virtme-ng does not tell.

    program are the lines that run it, up to its options, and before those that precede them.
    """
    return executable(
        work / "qemu", _WRAPPER.replace("@BEFORE@", before).replace("@QEMU@", program)
    )


def executable(path: Path, text: str) -> Path:
    """Make a script that can be executed at once."""
    # Another program writes it: what this one has open to write, a child that another thread
    # begins just then has, too, until it executes something, and so long nobody can execute it.
    write = ["install", "-m", "755", "/dev/stdin", str(path)]
    subprocess.run(write, input=text, text=True, check=True)
    return path


def crashed(work: Path) -> bool:
    """Whether a signal ended qemu: nothing that a guest does can make it end that way."""
    status = work / "qemu.status"
    return status.exists() and int(status.read_text(encoding="utf-8")) > 128
