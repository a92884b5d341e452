# SPDX-License-Identifier: GPL-2.0-only
"""Which data races are errors: those in which one of our functions is named."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pagehaul import races
from pagehaul.build import Kernel
from pagehaul.errors import PagehaulError


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Return a kernel that looks for races, with one object file of ours and one of others."""
    for name, code in (
        (
            "mm/migrate_copy/batch.o",
            "static void __attribute__((noinline)) ours(void) {}\n"
            "void start(void) { ours(); }\nvoid race(void) {}\nint counter;"
            "void folio_migrate_flags(void) {}",
        ),
        ("mm/filemap.o", "void theirs(void) {}"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = path.with_suffix(".c")
        source.write_text(code)
        subprocess.run(["gcc", "-O0", "-c", "-o", path, source], check=True)
    return Kernel("kcsan", tmp_path, tmp_path / "image", tmp_path / "config", "6.12.99")


def test_functions_of_our_objects_are_ours(kernel: Kernel) -> None:
    assert races.functions(kernel) == {"folio_migrate_flags", "ours", "race", "start"}


@pytest.mark.parametrize(
    ("what", "is_allowed"),
    [
        ("data-race in theirs / theirs_too", True),
        ("data-race in theirs / ours", False),
        ("data-race in ours.isra.0 / theirs", False),
        ("data-race in start+0x12/0x40", False),
        ("data-race in ours_not / restart", True),
        ("data-race in start [dcbm] / theirs", False),
        ("data-race in folio_migrate_flags / migration_entry_wait_on_locked\r", True),
        ("data-race in folio_migrate_flags / theirs", False),
        ("data-race in folio_migrate_flags / migration_entry_wait_on_locked_too", False),
    ],
)
def test_reports_that_name_one_of_them_are_errors(
    kernel: Kernel, what: str, is_allowed: bool
) -> None:
    patterns = races.allowed(kernel)
    assert any(re.search(each, f"BUG: KCSAN: {what}") for each in patterns) is is_allowed


def test_nothing_else_is_allowed(kernel: Kernel) -> None:
    patterns = races.allowed(kernel)
    assert not any(re.search(each, "BUG: KASAN: use-after-free in theirs") for each in patterns)
    assert races.allowed(replace(kernel, variant="debug")) == ()


def test_what_was_reported_is_counted(kernel: Kernel, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "[ 1.0] BUG: KCSAN: data-race in a / b\r\n[ 1.1] nothing\n[ 2.0] BUG: KCSAN: data-race in "
        "a / b\n[ 3.0] BUG: KCSAN: data-race in c+0x1/0x2\n"
    )
    assert races.told(kernel, log) == {"data-race in a / b": 2, "data-race in c+0x1/0x2": 1}
    assert not races.told(replace(kernel, variant="pagehaul"), log)


def test_a_kernel_without_our_objects_is_an_error(tmp_path: Path) -> None:
    kernel = Kernel("kcsan", tmp_path, tmp_path / "image", tmp_path / "config", "6.12.99")
    with pytest.raises(PagehaulError, match="build the kernel again"):
        races.allowed(kernel)
