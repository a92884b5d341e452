# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's knobs: what docs/knobs.toml says is what guide, kernel and tests have."""

import re
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.kernel import knobs
from pagehaul.paths import REPO

KERNEL = REPO / "kernel"
PAGE = KERNEL / "Documentation/admin-guide/mm/migrate_copy.rst"
SELFTEST = KERNEL / "tools/testing/selftests/migrate_copy/migrate_errors.c"
FUZZ = SELFTEST.with_name("migrate_fuzz.c")

DIRECTORIES = {directory.path: directory for directory in knobs.read()}
MAIN = "/sys/kernel/mm/migrate_copy/"
SYSCTL = "/proc/sys/vm/"

# Where the kernel's page describes what is in a directory.
HEADINGS = {
    MAIN: "Controls",
    f"{MAIN}engines/NAME/": "Copy engines",
    f"{MAIN}engines/dcbm/": "dcbm",
    "/sys/module/dcbm/parameters/": "dcbm",
    f"{MAIN}engines/mtcopy/": "mtcopy",
    SYSCTL: "vm.mt_page_copy",
}

# Limits as the selftest names them.
C_LIMITS = {"cpus": "CPUS", "page": "PAGE_KB"}

EVERY = [(directory, knob) for directory in DIRECTORIES.values() for knob in directory.knobs]


def ident(value: object) -> str:
    return value.name if isinstance(value, knobs.Knob) else Path(getattr(value, "path", "")).name


def source_of(directory: knobs.Directory) -> str:
    """Return the text of the source files whose paths begin with that of the description."""
    top = KERNEL / directory.source
    files = sorted(path for path in top.parent.rglob("*.c") if str(path).startswith(str(top)))
    assert files, directory.source
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def section(heading: str) -> str:
    """Return what stands in the kernel's page below a heading, up to the next one."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"^(\S.*)\n[=-]{4,}\n", text, flags=re.M)
    return parts[parts.index(heading) + 1]


def paragraph(directory: knobs.Directory, name: str) -> str:
    """Return what the kernel's page says of a file, by its definition list."""
    lines = re.search(rf"^{name}\n((?:\t.*\n|\n(?=\t))+)", section(HEADINGS[directory.path]), re.M)
    return " ".join(lines[1].split()) if lines else ""


def listed() -> dict[str, tuple[str, str]]:
    """Return the numbers that the selftest tries at their limits: name -> least and most."""
    text = SELFTEST.read_text(encoding="utf-8")
    table = re.search(r"^\} knobs\[\] = \{\n(.*?)^\};", text, re.M | re.S)
    assert table is not None
    found = re.findall(r'\{ "([\w.]+)", (\w+), (\w+) \}', table[1])
    return {name: (least, most.removesuffix("L")) for name, least, most in found}


@pytest.mark.parametrize("name", knobs.DOCUMENTS)
def test_documents_have_the_tables(name: str) -> None:
    text = knobs.DOCUMENTS[name].read_text(encoding="utf-8")
    assert text == knobs.written(name), "run: python -m pagehaul.kernel.knobs"


def test_each_directory_has_its_table_in_a_document() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in knobs.DOCUMENTS.values())
    for path in DIRECTORIES:
        assert texts.count(f", `{path}`:\n\n| file |") == 1, path


def test_a_guide_without_markers_is_an_error() -> None:
    with pytest.raises(PagehaulError, match="markers"):
        knobs.with_tables("# Guide\n", "")


def test_each_directory_is_described_once() -> None:
    assert len(DIRECTORIES) == len(knobs.read())
    for directory in DIRECTORIES.values():
        names = [knob.name for knob in directory.knobs]
        assert len(names) == len(set(names)), directory.path


@pytest.mark.parametrize("directory", DIRECTORIES.values(), ids=ident)
def test_the_kernel_makes_each_knob(directory: knobs.Directory) -> None:
    text = source_of(directory)
    for knob in directory.knobs:
        attribute = (
            rf"(?:__ATTR(?:_R[WO]|_WO)?|KNOB|module_param(?:_named|_cb))\({knob.name}\b"
            rf'|= "{knob.name}",'
        )
        assert re.search(attribute, text), knob.name


@pytest.mark.parametrize(("directory", "knob"), EVERY, ids=ident)
def test_the_kernel_has_these_defaults(directory: knobs.Directory, knob: knobs.Knob) -> None:
    text = source_of(directory)
    written = re.findall(
        rf"^(?:static )?unsigned int (?:migrate_copy_)?{knob.name} = (\d+);"
        rf"|^#define DEFAULT_{knob.name.upper()}\s+(\d+)$",
        text,
        re.M,
    )
    assert {first or second for first, second in written} <= {knob.default.split(",")[0]}


def test_the_kernel_makes_no_other_knob() -> None:
    text = source_of(DIRECTORIES[MAIN])
    made = set(re.findall(r"(?:__ATTR(?:_RW|_WO)?|KNOB)\((\w+),|__ATTR_\w\w\((\w+)\)", text))
    names = {first or second for first, second in made} - {"_name"}
    assert names == {knob.name for knob in DIRECTORIES[MAIN].knobs}


@pytest.mark.parametrize(("directory", "knob"), EVERY, ids=ident)
def test_the_kernels_page_describes_each_knob(directory: knobs.Directory, knob: knobs.Knob) -> None:
    if directory.path == SYSCTL:
        assert all(f"\n{value}\n\t" in section(HEADINGS[SYSCTL]) for value in (0, 1, 2))
    elif knob.name in ("status", "threads", "offloading"):
        # Named in the text of their neighbours.
        assert re.search(rf"\b{knob.name}\b", section(HEADINGS[directory.path]))
    else:
        assert paragraph(directory, knob.name)


@pytest.mark.parametrize(("directory", "knob"), EVERY, ids=ident)
def test_the_kernels_page_has_defaults_and_values(
    directory: knobs.Directory, knob: knobs.Knob
) -> None:
    if not (text := paragraph(directory, knob.name)) or knob.read_only or knob.write_only:
        return
    assert re.search(rf"\b{knob.default.split(',')[0]}\b", text), f"default {knob.default}"
    for value in knob.values:
        assert value in text or "names" in value or "one bit" in value, value
    if isinstance(knob.most, int) and 1 < knob.most < 1 << 20:
        assert re.search(rf"\b{knob.most}\b", text), f"limit {knob.most}"


@pytest.mark.parametrize("knob", [*DIRECTORIES[MAIN].knobs, *DIRECTORIES[SYSCTL].knobs], ids=ident)
def test_the_selftest_tries_each_knob(knob: knobs.Knob) -> None:
    name = f"vm.{knob.name}" if knob in DIRECTORIES[SYSCTL].knobs else knob.name
    if knob.least is None:
        text = SELFTEST.read_text(encoding="utf-8")
        assert re.search(rf'/{name}"|\{{ "{name}"', text)
        words = set(re.findall(r'"(\w+)"', text))
        assert set(knob.values) <= words | set(re.findall(r"\w+", text))
    else:
        limits = tuple(C_LIMITS.get(str(each), str(each)) for each in (knob.least, knob.most))
        assert listed()[name] == limits


def test_the_selftest_tries_no_other_knob() -> None:
    names = {knob.name for knob in DIRECTORIES[MAIN].knobs}
    names |= {f"vm.{knob.name}" for knob in DIRECTORIES[SYSCTL].knobs}
    assert set(listed()) <= names


def test_every_file_is_fuzzed() -> None:
    """migrate_fuzz finds files by itself; it must look where they are."""
    text = FUZZ.read_text(encoding="utf-8")
    assert "nftw(KNOB_DIR" in text and "knob_found(MT_PAGE_COPY" in text
    assert '"/sys/module/%s/parameters"' in text
    assert all(path.startswith((MAIN, SYSCTL, "/sys/module/")) for path in DIRECTORIES)
