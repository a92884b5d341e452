# SPDX-License-Identifier: GPL-2.0-only
"""Guests of the benchmark: which machines they are, and how they are booted."""

import shlex
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pagehaul.bench.catalogue import EXPERIMENTS
from pagehaul.bench.machines import channels
from pagehaul.bench.machines.guests import Guests
from pagehaul.bench.machines.kinds import DIES, DMA, ICOUNT, KINDS, PARALLEL
from pagehaul.bench.machines.places import Place, Turn
from pagehaul.guest import models, vm
from pagehaul.guest.machine import Guest
from pagehaul.guest.task import Result, Task
from pagehaul.host import facts
from pagehaul.kernel.built import Kernel


def images(tmp_path: Path) -> dict[str, Kernel]:
    return {
        name: Kernel(name, tmp_path / name, tmp_path / "bzImage", tmp_path / "config", "6.12")
        for name in ("vanilla", "pagehaul")
    }


def virtual(kind: str, cpus: int, model: str = "plain") -> Place:
    return Place(KINDS[kind], cpus, "virtual", model)


def test_without_kvm_experiments_have_their_machines_in_virtual_time(tmp_path: Path) -> None:
    here = Guests(tmp_path, images(tmp_path), kvm=False)
    assert here.places(EXPERIMENTS["folio-size"], quick=False) == tuple(
        virtual("parallel", cpus) for cpus in (1, 2, 4, 8, 16)
    )
    assert here.places(EXPERIMENTS["scaling"], quick=False) == (virtual("parallel", 32),)
    counted = (Place(ICOUNT, 1, "instructions"),)
    assert here.places(EXPERIMENTS["path-length"], quick=True) == counted
    assert here.places(EXPERIMENTS["non-temporal"], quick=True) == ()
    assert [place.model for place in here.places(EXPERIMENTS["validation"], quick=True)] == [
        "grace",
        "epyc-zen3",
    ]


def test_a_user_chooses_cpus_and_models(tmp_path: Path) -> None:
    chosen = Guests(tmp_path, images(tmp_path), (3, 5), ("grace",), kvm=True)
    assert chosen.places(EXPERIMENTS["stall"], quick=True) == (
        virtual("parallel", 3, "grace"),
        virtual("parallel", 5, "grace"),
    )
    # Its figures are of these machines.
    assert {place.model for place in chosen.places(EXPERIMENTS["validation"], quick=True)} == {
        "grace",
        "epyc-zen3",
    }


def test_with_kvm_experiments_have_the_cpus_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    here = Guests(tmp_path, images(tmp_path), kvm=True)
    assert here.places(EXPERIMENTS["stall"], quick=True) == (Place(PARALLEL, 6),)
    assert here.places(EXPERIMENTS["non-temporal"], quick=True) == (Place(PARALLEL, 6),)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert here.places(EXPERIMENTS["placement"], quick=True) == (Place(DIES, 4),)
    assert {place.clock for place in here.places(EXPERIMENTS["validation"], quick=True)} == {
        "virtual"
    }


def test_guests_of_virtual_time_have_a_model(tmp_path: Path) -> None:
    here = Guests(tmp_path, images(tmp_path))
    guest = here.guest(virtual("parallel", 8, "grace"), quick=True)
    assert (guest.cpus, guest.model, guest.clock) == (8, models.load("grace"), "virtual")
    assert here.size(virtual("parallel", 8, "grace"), quick=True).model == "grace"
    assert here.guest(Place(PARALLEL, 8), quick=True).clock == "host"
    assert here.guest(Place(ICOUNT, 1, "instructions"), quick=True).clock == "instructions"


def test_a_guest_with_two_dies_has_all_cpus_on_one_node(tmp_path: Path) -> None:
    here = Guests(tmp_path, images(tmp_path))
    guest = here.guest(virtual("dies", 8), quick=True)
    assert guest.topology == "sockets=1,dies=2,cores=4,threads=1"
    assert guest.node_cpus() == [range(8)]
    assert guest.memory_only_nodes == 1
    single = here.guest(virtual("dies", 1), quick=True)
    assert single.topology == "sockets=1,dies=1,cores=1,threads=1"


@pytest.mark.parametrize(
    ("cpus", "total", "device"),
    [(1, 18, "1-8,9-17"), (2, 18, "1-8,10-17"), (4, 20, "2-9,12-19"), (32, 48, "16-23,40-47")],
)
def test_the_channels_of_virtual_time_have_a_cpu_each(
    tmp_path: Path, cpus: int, total: int, device: str
) -> None:
    here = Guests(tmp_path, images(tmp_path))
    guest = here.guest(virtual("dma", cpus), quick=True)
    assert guest.cpus == total
    assert guest.append[-1] == f"isolcpus=domain,{device}"
    assert guest.device_cpus == device
    # They are part of the device: the caller and its helpers have the others.
    assert here.size(virtual("dma", cpus), quick=True).cpus == cpus


def test_without_it_half_of_the_cpus_are_the_channels(tmp_path: Path) -> None:
    guest = Guests(tmp_path, images(tmp_path)).guest(Place(DMA, 6), quick=True)
    assert (guest.cpus, guest.append[-1]) == (6, "isolcpus=domain,3-5")


@pytest.mark.parametrize(("place", "speed"), [(Place(DMA, 6), 200), (virtual("dma", 6), 3456)])
def test_modules_are_loaded_before_channels_are_asked_for(
    tmp_path: Path, place: Place, speed: int
) -> None:
    kernel = Kernel("pagehaul", tmp_path / "a tree", tmp_path, tmp_path, "6.12")
    guest = Guests(tmp_path, {"pagehaul": kernel}).guest(place, quick=True)
    if guest.model is not None:
        shared = {"channel_group": 2, "channel_group_mb_s": 34, "channels_mb_s": 56}
        guest = replace(guest, model=replace(guest.model, channel_mb_s=speed, **shared))
    shell, option, script = channels.loaded(kernel, guest, place.cpus, ["movebench", "--plan=-"])
    assert (shell, option) == ("sh", "-c")
    load, _, rest = script.partition(" && ")
    assert shlex.split(load)[:2] == ["insmod", f"{tmp_path}/a tree/drivers/dma/softdma.ko"]
    assert f"bandwidth_mb={speed}" in shlex.split(load)
    assert f"cpus={channels.device_cpus(guest, place.cpus)}" in shlex.split(load)
    # What channels share is told where a model says it.
    words = {word for word in shlex.split(load) if word.startswith(("group", "all_mb"))}
    expected = {"group=2", "group_mb=34", "all_mb=56"} if guest.model is not None else set()
    assert words == expected
    assert rest.endswith("dcbm.ko' && exec movebench --plan=-")


def test_as_many_guests_at_once_as_there_are_cpus_and_memory_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = Guests(tmp_path, images(tmp_path))
    places = [virtual("parallel", 2), virtual("faults", 4)]
    monkeypatch.setattr("pagehaul.host.facts.cpus", lambda: 3)
    for free_mb, most in ((64 << 10, 3), (7000, 2), (3000, 1)):
        monkeypatch.setattr(facts, "memory_available_mb", lambda free_mb=free_mb: free_mb)
        assert here.at_once(places, quick=True) == most
    monkeypatch.setattr(facts, "memory_available_mb", lambda: 64 << 10)
    assert here.at_once([], quick=True) == 3


LINE = '{"label": "0"}\n'


def test_a_guest_in_virtual_time_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    seen: dict[str, Any] = {}

    def run(kernel: Kernel, guest: Guest, task: Task, **options: Any) -> Result:
        seen.update(kernel=kernel, guest=guest, **vars(task), **options)
        options["listener"].on_output("stdout", LINE.encode())
        counts = {"slices": 1000, "forced": 1, "cells": [{"forced": 0, "ns": 5}]}
        return Result(0, LINE, "", options["log"], 2.0, "tcg", simulation=counts)

    monkeypatch.setattr(vm, "run", run)
    here = Guests(tmp_path / "movebench", images(tmp_path), profile=tmp_path)
    told: list[tuple[str, dict[str, Any]]] = []
    turns = [Turn("pagehaul", "--label=0")]
    place = virtual("parallel", 2)
    found = here.run(place, True, turns, 9.0, lambda *line: told.append(line), Event())
    assert found == told == [("pagehaul", {"label": "0"})]
    assert seen["command"] == [str(tmp_path / "movebench"), "--plan=-", "--own-machine"]
    assert seen["stdin"] == "--label=0\n"
    assert seen["watched"] == []
    assert seen["guest"].profile is not None
    environment = here.environment()
    assert environment["slices"] == {"slices": 1000, "forced": 1}
    assert environment["machines"]["parallel"]["cpus"] == [2]
    assert environment["simulation"][0]["kernel"] == "pagehaul"


def test_the_host_has_memory_to_give() -> None:
    assert facts.memory_available_mb() > 0
