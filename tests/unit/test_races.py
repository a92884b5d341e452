# SPDX-License-Identifier: GPL-2.0-only
"""Which data races are errors: those in which one of our functions is named."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, source, tree
from pagehaul.kernel.built import Kernel
from pagehaul.suites import races

# A file of the kernel before and after our patches.
BEFORE = """
static int counter;
static const char * const names[] =
{
	"none"
};

/* Not in this way: changed() { */
int kept(int a)
{
	return a;
}

int changed(int a)
{
	return a;
}

static __attribute__((noinline)) int
kept_too(void)
{
	return counter;
}

static inline __attribute__((always_inline)) int inlined(int a)
{
	return a;
}

int caller(int a)
{
	return inlined(a) + kept_too();
}

int not_a_caller(int not_inlined)
{
	return not_inlined;
}
"""
AFTER = (
    BEFORE.replace("changed(int a)\n{\n", "changed(int a)\n{\n\ta++;\n").replace(
        "inlined(int a)\n{\n", "inlined(int a)\n{\n\ta--;\n"
    )
    + """
int added(int a,
	int b)
{
	if (a) {
		return b;
	}
	return a;
}
"""
)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Return a kernel that looks for races, with object files of ours, of others, and of both."""
    pristine = tmp_path / "pristine"
    (pristine / "mm").mkdir(parents=True)
    (pristine / "mm/gup.c").write_text(BEFORE)
    monkeypatch.setattr(source, "ensure", lambda base: pristine)
    monkeypatch.setattr(
        tree, "patched_sources", lambda content: ["mm/gup.c", "mm/not_configured.c"]
    )
    for name, code in (
        (
            "mm/migrate_copy/batch.o",
            "static void __attribute__((noinline)) ours(void) {}\n"
            "void start(void) { ours(); }\nvoid race(void) {}\nint counter;"
            "void folio_migrate_flags(void) {}",
        ),
        ("mm/filemap.o", "void theirs(void) {}"),
        ("mm/gup.o", AFTER),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.with_suffix(".c")
        text.write_text(code)
        subprocess.run(["gcc", "-O0", "-c", "-o", path, text], check=True)
    image, config = tmp_path / "image", tmp_path / "config"
    return Kernel("kcsan", tmp_path, image, config, "7.3.99", base=bases.get())


def test_functions_of_our_objects_are_ours(kernel: Kernel) -> None:
    assert {"folio_migrate_flags", "ours", "race", "start"} <= races.functions(kernel)


def test_functions_that_the_patches_add_or_change_are_ours(kernel: Kernel) -> None:
    ours = races.functions(kernel) - {"folio_migrate_flags", "ours", "race", "start"}
    # Inlined functions are found where they were inlined.
    assert ours == {"added", "caller", "changed"}


def test_functions_of_a_file_are_found() -> None:
    assert list(races.definitions(AFTER)) == [
        "kept",
        "changed",
        "kept_too",
        "inlined",
        "caller",
        "not_a_caller",
        "added",
    ]
    call = "SYSCALL_DEFINE3(mbind, int, a,\n\t\tint, b)\n{\n\treturn 0;\n}\n"
    assert list(races.definitions(call)) == ["__do_sys_mbind"]


def test_a_function_of_two_configurations_is_both() -> None:
    found = races.definitions("int f(void)\n{\n\treturn 1;\n}\n\nint f(void)\n{\n\treturn 2;\n}\n")
    assert "return 1;" in found["f"] and "return 2;" in found["f"]


def test_what_is_inlined_stands_under_the_names_of_its_callers() -> None:
    defined = races.definitions(
        "int a(void)\n{\n\treturn b();\n}\n\nint b(void)\n{\n\treturn a();\n}\n\n"
        "int c(void)\n{\n\treturn a();\n}\n\nSYSCALL_DEFINE0(d)\n{\n\treturn b();\n}\n"
    )
    symbols = {"c", "__se_sys_d"}
    assert races.compiled_into({"b"}, defined, symbols) == {"c", "__do_sys_d", "__se_sys_d"}
    assert races.compiled_into({"c"}, defined, symbols) == {"c"}


@pytest.mark.parametrize(
    ("what", "is_allowed"),
    [
        ("data-race in theirs / theirs_too", True),
        ("data-race in theirs / ours", False),
        ("data-race in ours.isra.0 / theirs", False),
        ("data-race in start+0x12/0x40", False),
        ("data-race in ours_not / restart", True),
        ("data-race in kept / kept_too", True),
        ("data-race in added / theirs", False),
        ("data-race in theirs / caller", False),
        ("data-race in start [dcbm] / theirs", False),
        ("data-race in folio_migrate_flags / migration_entry_wait_on_locked\r", True),
        ("data-race in alloc_migration_target / copy_page_range\r", True),
        ("data-race in folio_mark_accessed / kernel_move_pages", True),
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
    kernel = Kernel("kcsan", tmp_path, tmp_path / "image", tmp_path / "config", "7.3.99")
    with pytest.raises(PagehaulError, match="build the kernel again"):
        races.allowed(kernel)
