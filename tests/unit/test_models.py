# SPDX-License-Identifier: GPL-2.0-only
"""Machine models: those that are there, and one clear line for each way in which one is wrong."""

import math
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.guest import models, qemu_options
from pagehaul.guest.machine import Guest

GOOD = 'title = "a machine"\nabout = "for a test"\n' + "".join(
    f'[parameters.{name}]\nvalue = {number}\nsource = "of {name}"\n'
    for number, name in enumerate(models.PARAMETERS, start=1)
)
# The lines in it that have these two.
SLICE, IPI = (f"value = {models.PARAMETERS.index(name) + 1}" for name in ("slice_ns", "ipi_ns"))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(models, "_DIRECTORY", tmp_path)
    return tmp_path


def test_those_that_are_promised_are_there() -> None:
    assert models.names()[0] == models.DEFAULT
    assert {"cxl", "epyc-zen3", "grace", "plain"} <= set(models.names())


@pytest.mark.parametrize("name", models.names())
def test_every_model_is_right(name: str) -> None:
    model = models.load(name)
    assert model.name == name and model.parameters().keys() == model.sources.keys()
    assert model.copy_load_near_ps <= model.copy_load_far_ps <= model.copy_load_slow_ps
    assert model.load_near_ns <= model.load_far_ns <= model.load_slow_ns
    # 0 is no limit.
    assert (model.slow_mb_s or math.inf) <= (model.node_mb_s or math.inf)
    assert model.line_cache_ns <= model.line_socket_ns <= model.line_far_ns


def test_plain_costs_nothing_but_instructions_and_copies() -> None:
    model = models.load("plain")
    lines = (model.line_cache_ns, model.line_socket_ns, model.line_far_ns)
    assert lines == (0, 0, 0) and model.node_mb_s == 0
    # A CPU copies 10 GB/s, wherever the memory is.
    assert model.copy_load_near_ps + model.copy_store_far_ps == 100
    assert model.copy_load_far_ps + model.copy_store_near_ps == 100


def test_cxl_is_plain_but_for_memory() -> None:
    plain, cxl = (models.load(name).parameters() for name in ("plain", "cxl"))
    changed = {name for name in models.PARAMETERS if plain[name] != cxl[name]}
    loads = {"load_near_ns", "load_far_ns", "load_slow_ns"}
    slow = {"copy_load_slow_ps", "copy_store_slow_ps"}
    assert changed == loads | slow | {"node_mb_s", "slow_mb_s"}


def test_cxl_is_what_the_firmware_tells_the_kernel() -> None:
    model = models.load("cxl")
    options = qemu_options.machine(Guest(cpus=2, nodes=1, memory_only_nodes=1, model=model))
    told = {
        (word.split("target=")[1][0], word.split(",")[-1])
        for word in options
        if word.startswith("hmat-lb,")
    }
    assert told == {
        ("0", f"latency={model.load_near_ns}"),
        ("0", f"bandwidth={model.node_mb_s // 1000}G"),
        ("1", f"latency={model.load_slow_ns}"),
        ("1", f"bandwidth={model.slow_mb_s // 1000}G"),
    }


def test_a_file_is_read(directory: Path) -> None:
    (directory / "mine.toml").write_text(GOOD)
    model = models.load("mine")
    assert (model.name, model.title, model.about) == ("mine", "a machine", "for a test")
    assert list(model.parameters().values()) == list(range(1, len(models.PARAMETERS) + 1))
    assert model.sources["ipi_ns"] == "of ipi_ns"
    assert hash(model) == hash(models.load("mine"))


def test_unknown_model_is_an_error_that_names_the_others(directory: Path) -> None:
    for name in ("aaa", "plain"):
        (directory / f"{name}.toml").write_text(GOOD)
    with pytest.raises(PagehaulError, match=r"^unknown machine model 'zen': .* plain, aaa$"):
        models.load("zen")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "a machine"', "", "'title' is missing"),
        ('about = "for a test"', 'about = " "', "'about' is missing"),
        ('title = "a machine"', 'title = "a machine"\nwidth = 3', "unknown entry 'width'"),
        ("[parameters.ipi_ns]", "[parameters.ipi]", "unknown parameter 'ipi'"),
        (
            f'[parameters.slice_ns]\n{SLICE}\nsource = "of slice_ns"\n',
            "",
            "parameter 'slice_ns' is missing",
        ),
        ('source = "of ipi_ns"', "", "parameter 'ipi_ns' has no source"),
        ('source = "of ipi_ns"', 'source = ""', "parameter 'ipi_ns' has no source"),
        (SLICE, 'value = "17"', "'slice_ns': '17' is not a whole number of 1 or more"),
        (SLICE, "value = 0", "'slice_ns': 0 is not a whole number of 1 or more"),
        (SLICE, "value = true", "'slice_ns': True is not a whole number"),
        (SLICE, "value = 1.5", "'slice_ns': 1.5 is not a whole number"),
        (SLICE, "", "'slice_ns': None is not a whole number"),
        (f"{IPI}\n", "value = -1\n", "'ipi_ns': -1 is not a whole number of 0 or more"),
        (SLICE, "value = 17\nunit = 1", "'slice_ns': unknown entry 'unit'"),
        (SLICE, "value =", "not a model: "),
    ],
)
def test_wrong_file_is_one_clear_line(directory: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    (directory / "mine.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(PagehaulError) as error:
        models.load("mine")
    assert message in str(error.value) and str(directory / "mine.toml") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('title = "a"\nabout = "b"\n', "it has no parameters"),
        ('title = "a"\nabout = "b"\nparameters = 3\n', "it has no parameters"),
        ('title = "a"\nabout = "b"\n[parameters]\nipi_ns = 3\n', "'instruction_ps' is missing"),
    ],
)
def test_file_without_parameters_is_an_error(directory: Path, text: str, message: str) -> None:
    (directory / "mine.toml").write_text(text)
    with pytest.raises(PagehaulError, match=message):
        models.load("mine")
    with pytest.raises(PagehaulError, match="no table with value and source"):
        models._parameter(directory, "ipi_ns", 3)


def test_deviations_are_explained_in_the_file(directory: Path) -> None:
    told = '[[deviations]]\nseries = "CPU threads"\nfolio_kb = 64\nwhy = "other pages"\n'
    (directory / "mine.toml").write_text(GOOD + told)
    (only,) = models.load("mine").deviations
    assert only == models.Deviation("CPU threads", 64, "other pages")


@pytest.mark.parametrize(
    "told",
    ['series = "CPU threads"\n', 'series = ""\nfolio_kb = 4\nwhy = "x"\n', "other = 1\n"],
)
def test_wrong_deviations_are_one_clear_line(directory: Path, told: str) -> None:
    (directory / "mine.toml").write_text(f"{GOOD}[[deviations]]\n{told}")
    with pytest.raises(PagehaulError, match="deviations"):
        models.load("mine")
