# SPDX-License-Identifier: GPL-2.0-only
"""Guests in virtual time: what they are booted with, and what is said where that cannot be."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from guest_runs import run_guest

from pagehaul.errors import PagehaulError
from pagehaul.guest import command_line, cprogs, models, qemu, qemu_options, script, virtual_time
from pagehaul.guest.boards import x86
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import GuestError, Result
from pagehaul.host import tools
from pagehaul.kernel.arches import ARM64
from pagehaul.kernel.built import Kernel

Fake = Callable[[str, str], Path]

PLAIN = models.load("plain")
REFUSED = "vtime: error: slice_ns=0 is not an option with a value that fits"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    (tmp_path / "config").write_text("CONFIG_NO_HZ=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n")
    return Kernel("vanilla", tmp_path, tmp_path / "bzImage", tmp_path / "config", "7.3.99")


@pytest.fixture
def simulator(tmp_path: Path) -> virtual_time.Simulator:
    found = qemu.Qemu(tmp_path / "new/qemu", (10, 0), (tmp_path / "new/lib",), (tmp_path / "fw",))
    return virtual_time.Simulator(found, tmp_path / "vtime.so")


def plugin_options(
    simulator: virtual_time.Simulator, kernel: Kernel, guest: Guest
) -> dict[str, str | None]:
    assert guest.model is not None
    options = simulator.options(kernel, guest, guest.model, Path("/r,1.json"))
    plugin = options[options.index("-plugin") + 1].replace(",,", "\0")
    first, *rest = (word.replace("\0", ",") for word in plugin.split(","))
    assert first == str(simulator.plugin)
    return dict(word.split("=", 1) for word in rest)


def test_the_plugin_is_told_of_model_and_machine(
    simulator: virtual_time.Simulator, kernel: Kernel
) -> None:
    grace = models.load("grace")
    guest = Guest(cpus=8, memory_only_nodes=1, memory_mb=3072, model=grace, profile=Path("/p"))
    told = plugin_options(simulator, kernel, guest)
    assert told["cpus_per_node"] == "4" and told["node_mb"] == "1024:1024:1024"
    assert told["cpu_nodes"] == "2"
    assert told["report"] == "/r,1.json" and told["profile"] == "/p"
    assert "memcpy" not in told and "device_cpus" not in told
    # How fast DMA is, its driver knows in the guest.
    assert [name for name in told if name.startswith("channel")] == []
    for name in ("instruction_ps", "line_far_ns", "load_slow_ns", "slow_mb_s", "slice_ns"):
        assert told[name] == str(getattr(grace, name))
    assert "profile" not in plugin_options(simulator, kernel, replace(guest, profile=None))


def test_the_plugin_knows_every_option_that_it_is_given(
    simulator: virtual_time.Simulator, kernel: Kernel
) -> None:
    source = (virtual_time.REPO / "sim/vtime.c").read_text()
    (kernel.tree / "System.map").write_text("ff10 t memcpy_orig\nff80 T next\n")
    guest = Guest(cpus=4, model=PLAIN, profile=Path("/p"), device_cpus="1,3")
    told = plugin_options(simulator, kernel, guest)
    assert told["memcpy"] == "ff10-ff80" and told["device_cpus"] == "1:3"
    assert [name for name in told if f'"{name}"' not in source] == []


def test_qemu_alone_is_preloaded(simulator: virtual_time.Simulator, tmp_path: Path) -> None:
    binary = simulator.qemu.binary
    binary.parent.mkdir()
    binary.write_text('#!/bin/bash\necho "$LD_PRELOAD|$LD_LIBRARY_PATH|$*"\n')
    binary.chmod(0o755)
    wrapper = script.wrapper(tmp_path, simulator.program())
    # The loader complains that the plugin is missing, to whatever it is preloaded.
    done = subprocess.run([wrapper, "a b"], capture_output=True, text=True, check=True)
    preloaded, libraries, options = done.stdout.strip().split("|")
    assert preloaded == str(simulator.plugin) and libraries.startswith(f"{tmp_path}/new/lib")
    assert options == f"-L {tmp_path}/fw a b"
    assert "LD_PRELOAD" not in os.environ


def test_our_init_comes_before_that_of_virtme(tmp_path: Path) -> None:
    qemu = script.wrapper(tmp_path, "printf '%s\\n'", x86.WITH_INIT)
    words = [qemu, "-append", "quiet init=/a/virtme-ng-init", "a  b", "init=/c"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    init = f"init={tmp_path}/qemu.init virtme_init="
    assert told == ["-append", f"quiet {init}/a/virtme-ng-init", "a  b", "init=/c"]


# A hook stays as long as its interpreter.
_SEE_WRITES = """\
import os, sys
from pathlib import Path
from pagehaul.guest import script

def look(event, what):
    if event == "open" and what[2] & (os.O_WRONLY | os.O_RDWR) and "qemu" in str(what[0]):
        print(what[0])

sys.addaudithook(look)
script.wrapper(Path(sys.argv[1]), "true")
"""


def test_no_child_has_the_wrapper_open_to_write(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _SEE_WRITES, str(tmp_path)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == ""


def test_the_kernel_believes_the_clock(kernel: Kernel) -> None:
    words = command_line.words(kernel, Guest(model=PLAIN, accel="tcg", append=("mine",)))
    assert {
        "nokaslr",
        "norandmaps",
        "tsc_early_khz=1000000",
        "no_timer_check",
        "lpj=4000000",
    } <= set(words)
    # A hang is one after as long as on hardware: the host's other work takes no time.
    assert not [word for word in words if "thresh" in word or "timeout" in word]
    assert words[-1] == "mine" and words.count("tsc=reliable") == 1
    # An emulated CPU may miss the ticks that the kernel waits for.
    emulated = command_line.words(kernel, Guest(accel="tcg"))
    assert "no_timer_check" in emulated and "no_timer_check" not in command_line.words(
        kernel, Guest(accel="kvm")
    )
    kernel.config.unlink()
    assert not [word for word in virtual_time.kernel_words(kernel) if word.startswith("lpj")]


def test_the_kernel_maps_memory_where_the_plugin_expects_it() -> None:
    def processor(guest: Guest) -> list[str]:
        options = qemu_options.machine(guest)
        return options[options.index("-cpu") + 1].split(",")

    assert {"-erms", "-fsrm", "-la57"} <= set(processor(Guest(model=PLAIN, accel="tcg")))
    assert "-la57" not in processor(Guest(accel="tcg"))


def test_a_guest_says_what_its_time_is() -> None:
    assert Guest(model=PLAIN).clock == "virtual"
    assert Guest(cpus=1, icount=True).clock == "instructions"
    assert Guest().clock == "host"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"accel": "kvm", "model": PLAIN}, "virtual time needs TCG"),
        ({"cpus": 1, "icount": True, "model": PLAIN}, "virtual time needs TCG"),
        ({"profile": Path("/p")}, "only a guest in virtual time has a profile"),
    ],
)
def test_impossible_guest_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(PagehaulError, match=message):
        Guest(**wrong)


@pytest.mark.parametrize(
    ("cpus", "nodes", "fits"),
    [(4, 2, True), (5, 2, True), (1, 2, True), (2, 3, True), (7, 3, False), (10, 4, False)],
)
def test_a_cpu_is_on_the_node_that_the_plugin_takes_it_for(
    cpus: int, nodes: int, fits: bool
) -> None:
    guest = Guest(cpus=cpus, nodes=nodes, model=PLAIN)
    if fits:
        virtual_time.check(guest)
        return
    with pytest.raises(PagehaulError, match=f"{cpus} CPUs on {nodes} nodes are not"):
        virtual_time.check(guest)


def test_a_host_of_one_cpu_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    virtual_time.check(Guest(model=PLAIN))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    virtual_time.check(Guest(model=PLAIN))
    assert "has one CPU" in capsys.readouterr().err


def test_the_reason_is_found_in_what_was_printed() -> None:
    noise = (
        "qemu-system-x86_64: Failed to open module: /usr/lib/ui-gtk.so: undefined symbol\n"
        "qemu-system-x86_64: warning: TCG doesn't support requested feature\n"
    )
    refused = "qemu-system-x86_64: -plugin /x/vtime.so: Could not load plugin /x/vtime.so: no"
    preload = "ERROR: ld.so: object '/x' from LD_PRELOAD cannot be preloaded (x): ignored."
    assert virtual_time.failure(f"{noise}{REFUSED}\r\n{refused}\n") == REFUSED
    assert virtual_time.failure(f"{noise}{refused}\n") == refused
    assert virtual_time.failure(f"{refused}\n{preload}\n") == preload
    missing = "qemu-system-x86_64: -plugin vtime.so: there is no such option"
    assert virtual_time.failure(f"{noise}{missing}\n") == missing
    assert virtual_time.failure(f"{noise}[    0.0] Linux version 6.12\n") is None


def test_a_simulator_that_is_not_made_is_an_error(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulator: virtual_time.Simulator
) -> None:
    monkeypatch.setattr(qemu, "simulator", lambda: simulator.qemu)
    monkeypatch.setattr(cprogs, "build_static", lambda directory: tmp_path)
    with pytest.raises(PagehaulError, match=r"made no vtime\.so"):
        virtual_time.simulator.__wrapped__()
    (tmp_path / "vtime.so").touch()
    assert virtual_time.simulator.__wrapped__() == simulator


@dataclass
class Booted:
    """Runs a command in a guest in virtual time that behaves as a script says."""

    fake: Fake
    kernel: Kernel
    log: Path

    def __call__(self, script: str, **guest: Any) -> Result:
        self.fake("vng", f"report=$(echo \"$@\" | grep -o 'report=[^ ]*' | cut -d= -f2); {script}")
        how = {"memory_mb": 512, "model": PLAIN, **guest}
        return run_guest(self.kernel, Guest(**how), ["true"], self.log, timeout=20)


@pytest.fixture
def boot(
    fake_guest: Fake,
    kernel: Kernel,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulator: virtual_time.Simulator,
) -> Booted:
    def need(group: str) -> None:
        raise AssertionError(f"{group} is not needed")

    monkeypatch.setattr(tools, "need_for", need)
    monkeypatch.setattr(x86, "_vng_path", lambda: tmp_path / "fake-bin/vng")
    monkeypatch.setattr(virtual_time, "simulator", lambda: simulator)
    return Booted(fake_guest, kernel, tmp_path / "logs/guest.log")


def test_what_the_simulator_counted_comes_back(boot: Booted) -> None:
    result = boot("""echo '{"slices": 7, "cells": []}' > "$report"; echo 0 > "$status" """)
    assert result.simulation == {"slices": 7, "cells": []} and result.accel == "tcg"


@pytest.mark.parametrize("report", ["true", "echo half > $report"])
def test_a_simulator_without_a_report_is_an_error(boot: Booted, report: str) -> None:
    with pytest.raises(GuestError, match=r"\(virtual time, plain\): the simulator left no report"):
        boot(f'{report}; echo 0 > "$status"')


def test_a_plugin_that_does_not_load_is_one_line(boot: Booted) -> None:
    with pytest.raises(GuestError) as error:
        boot(f'echo "{REFUSED}" >&2; exit 1')
    wanted = f"virtual time did not start: {REFUSED}; the whole log is in {boot.log}"
    assert str(error.value) == wanted


def test_a_guest_that_began_is_not_blamed_on_the_plugin(boot: Booted) -> None:
    with pytest.raises(GuestError, match=r"\(virtual time, plain\) ended before its command did"):
        boot(f'echo half > "$out"; echo "{REFUSED}" >&2; exit 1')


def test_too_little_memory_is_one_line(boot: Booted) -> None:
    with pytest.raises(PagehaulError, match=r"give it less memory$") as error:
        boot("true", memory_mb=1 << 30)
    assert "\n" not in str(error.value)


def test_no_virtual_time_on_other_architectures(boot: Booted) -> None:
    boot.kernel = replace(boot.kernel, arch=ARM64)
    with pytest.raises(PagehaulError, match="no virtual time on arm64"):
        boot("true")
