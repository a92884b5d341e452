# SPDX-License-Identifier: GPL-2.0-only
"""Profiles of guests in virtual time."""

from pathlib import Path

import pytest

from pagehaul.bench import profile, profiled
from pagehaul.bench.cell import Size
from pagehaul.errors import PagehaulError
from pagehaul.report import flame, profiles

_MAP = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T main_entry
ffffffff81000100 t caller
ffffffff81000200 T _raw_spin_lock
ffffffff81000300 t queued_spin_lock_slowpath
ffffffff81000400 T other
ffffffff81000500 D data
ffffffff81000600 T last
"""
_FILE = """\
S 0 3000000 ffffffff81000310 ffffffff81000420 ffffffff81000210 ffffffff81000110 ffffffff81000010
S 0 1000000 ffffffff81000105 ffffffff81000010
S 1 2000000 0
S 1 4000000 401000
L ffffffff81000310 5 250000
L ffffffff81000105 7 0
C ffffffff81000210 ffffffff81000300
C ffffffff81000110 ffffffff81000200
C ffffffff81000010 ffffffff81000100
C ffffffff81000420 ffffffff81000600
"""


@pytest.fixture
def read(tmp_path: Path) -> profile.Profile:
    path = tmp_path / "guest.txt"
    path.write_text(_FILE)
    return profile.read(path, profile.Symbols(_MAP))


def test_chains_lose_what_other_calls_have_left(read: profile.Profile) -> None:
    # other() called last(), which is not further in: its return address is an old one.
    chain = ("queued_spin_lock_slowpath", "_raw_spin_lock", "caller", "main_entry")
    assert read.samples[0] == profile.Sample(0, 3000000, chain)
    assert read.folded()[tuple(reversed(chain))] == 3000000


def test_time_by_function_and_cpu(read: profile.Profile) -> None:
    times = read.by_function()
    assert times["caller"] == {0: 1000000}
    assert times["[idle]"] == {1: 2000000} and times["[user]"] == {1: 4000000}
    assert read.total_ps() == 10000000


def test_who_waits_is_who_wants_the_lock(read: profile.Profile) -> None:
    assert read.waits() == {("queued_spin_lock_slowpath", "caller"): 3000000}


def test_lines_by_instruction(read: profile.Profile) -> None:
    assert read.lines == {"queued_spin_lock_slowpath+0x10": (5, 250000), "caller+0x5": (7, 0)}


def test_tables_and_picture(read: profile.Profile) -> None:
    functions, waits, lines = profiles.tables(read, "a guest")
    assert functions.rows[0][:3] == ("[user]", "40.0%", "4")
    assert waits.rows == (("caller", "queued_spin_lock_slowpath", "30.0%", "3"),)
    # The costliest comes first, and among equals the line that travelled most.
    assert [row[0] for row in lines.rows] == ["queued_spin_lock_slowpath+0x10", "caller+0x5"]
    page = profiles.html(read, "a guest")
    assert page.count("<svg") == 1 and page.count("<table") == 3


def test_the_busiest_cpus_have_a_column(tmp_path: Path) -> None:
    path = tmp_path / "guest.txt"
    path.write_text("".join(f"S {cpu} {ps} 0\n" for cpu, ps in enumerate((5, 9, 1, 7))))
    functions = profiles.tables(profile.read(path, profile.Symbols(_MAP)), "a guest")[0]
    assert functions.header[3:] == ("us, CPU 0", "us, CPU 1", "us, CPU 3")


def test_widths_of_the_picture_are_times() -> None:
    drawn = flame.picture({("a",): 3, ("a", "b"): 1, ("<c>",): 4})
    assert drawn.count("<rect") == 4
    assert 'width="600.0"' in drawn and 'width="150.0"' in drawn
    assert "&lt;c&gt;" in drawn and "<c>" not in drawn


@pytest.mark.parametrize("text", ["X 1 2", "S a b", "L 12"])
def test_another_file_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "guest.txt"
    path.write_text(text)
    with pytest.raises(PagehaulError, match="is no profile of the simulator"):
        profile.read(path, profile.Symbols(_MAP))


def test_cell_of_a_command() -> None:
    found = profiled.experiment("vanilla:callers:2048x32:32")
    (cell,) = found.cells(Size(True, 32, 640, 0, "plain"))
    assert (cell.kernel, cell.method, cell.threads) == ("vanilla", "callers", 32)
    assert (cell.shape.folio_kb, cell.shape.folios) == (2048, 32)
    assert found.cpus == (32,)
    with pytest.raises(PagehaulError, match="does not fit"):
        found.cells(Size(True, 32, 16, 0, "plain"))


@pytest.mark.parametrize("text", ["", "pagehaul:parallel", "pagehaul:magic:4x1", "a:batch:0x1"])
def test_no_cell_is_one_clear_line(text: str) -> None:
    with pytest.raises(PagehaulError):
        profiled.experiment(text)
