# SPDX-License-Identifier: GPL-2.0-only
"""The series: what it is made of, and its patches one by one."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Content
from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, build, compose, mails, series, source, tree
from pagehaul.kernel.arches import X86_64
from pagehaul.kernel.series import Patch, Series
from pagehaul.paths import REPO
from pagehaul.suites import patches

PARTS = '[[part]]\nname = "a"\ntitle = "A"\n'

HOOK = """\
--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -3,4 +3,5 @@
 three
 four
+hook
 five
 six
"""
SECOND = """\
--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -4,4 +4,5 @@
 four
 hook
+another hook
 five
 six
"""

GROWTH = """\
--- a/mm/copy.c
+++ b/mm/copy.c
@@ -1 +1,2 @@
 copy
+more
"""

SIGNED = "Signed-off-by: A <a@b.c>"


def toml(tmp_path: Path, text: str) -> Series:
    (tmp_path / "kernel/mm").mkdir(parents=True)
    (tmp_path / "kernel/mm/one.c").write_text("")
    (tmp_path / "kernel/mm/two.c").write_text("")
    (tmp_path / "series").mkdir()
    (tmp_path / "series/series.toml").write_text(PARTS + text)
    return series.read(tmp_path)


def entry(name: str, files: str, part: str = "a") -> str:
    return f'[[patch]]\nname = "{name}"\npart = "{part}"\nfiles = [{files}]\n'


def test_new_files_belong_to_their_patches(tmp_path: Path) -> None:
    found = toml(tmp_path, entry("x", '"mm/o*.c"') + entry("y", '"mm/two.c"'))
    assert found.patches == (Patch("x", "a", ("mm/one.c",)), Patch("y", "a", ("mm/two.c",)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (entry("x", '"mm/*.c"') + entry("y", '"mm/two.c"'), "comes with x and with y"),
        (entry("x", '"mm/one.c"'), "no patch brings mm/two.c"),
        (entry("x", '"mm/*.c", "mm/three.c"'), "no such file"),
        (entry("x", '"mm/*.c"', part="b"), "x is in b, which is no part"),
        ("[[patch]]\n", "name"),
    ],
)
def test_a_wrong_series_is_an_error(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(PagehaulError, match=what):
        toml(tmp_path, text)


def test_test_kernels_alone_have_what_is_for_tests() -> None:
    assert series.parts_of("vanilla") == ()
    pagehaul = set(series.parts_of("pagehaul"))
    assert pagehaul == set(series.load().parts) - {"experiments", "test-hooks"}
    assert set(series.parts_of("torture")) - pagehaul == {"test-hooks"}
    assert set(series.parts_of("pcp-compound")) - pagehaul == {"experiments"}
    assert set(series.parts_of("debug-pcp-compound")) == set(series.load().parts)


def test_every_patch_has_a_message_and_something_to_change() -> None:
    known = [bases.get(name) for name in bases.names()]
    pieces = series.load()
    names = {patch.name for patch in pieces.patches}
    for patch in pieces.patches:
        assert compose.message(pieces, patch.name)
        diffs = [pieces.later(patch.name), *(base.diff(patch.name) for base in known)]
        assert patch.files or any(diff.exists() for diff in diffs)
    assert {path.stem for path in (REPO / "series/later").iterdir()} <= names
    assert compose.message(pieces, series.COMBINED)
    texts = {path.stem for path in (REPO / "series").glob("*.txt")}
    covers = {f"cover-{part}" for part in pieces.parts}
    assert texts - covers == {*names, "cover", series.COMBINED}


def test_a_base_has_hunks_of_patches_or_of_all_together() -> None:
    on_top = [patch.name for patch in series.load().patches if patch.part in series.ON_TOP]
    for name in bases.names():
        found = {path.stem for path in bases.get(name).patches.iterdir()}
        if name == bases.DEFAULT:
            assert series.COMBINED not in found
            assert found <= {patch.name for patch in series.load().patches}
        else:
            assert series.COMBINED in found
            assert found <= {series.COMBINED, *on_top}


def test_no_more_patches_than_a_maintainer_reads() -> None:
    pieces = series.load()
    found = Counter(patch.part for patch in pieces.patches if patch.part not in series.APART)
    assert max(found.values()) <= 5
    # The parts to be posted first.
    assert sum(found[part] for part in series.parts_of("helpers")) <= 9


def test_tests_fit_into_mails() -> None:
    pieces, base = series.load(), bases.get()
    for patch in pieces.patches:
        if patch.part == "tests":
            paths = [pieces.overlay / name for name in patch.files]
            lines = b"".join(path.read_bytes() for path in paths).split(b"\n")
            diffs = [base.diff(patch.name), pieces.later(patch.name), pieces.text(patch.name)]
            size = sum(path.stat().st_size for path in diffs if path.exists())
            # A line of a new file has a plus in front.
            assert size + sum(len(line) + 2 for line in lines) <= mails.MOST_BYTES, patch.name


@pytest.fixture
def small(
    content: Content,
    kernel_dir: Path,
    cache: Path,
    tmp_path: Path,
) -> Path:
    """The source for a series of two patches; the second changes a file of the first."""
    (content.overlay / "mm").mkdir()
    (content.overlay / "mm/copy.c").write_text("copy\nmore\n")
    (tmp_path / "series/later").mkdir(parents=True)
    for name, hunk in (("1", HOOK), ("2", SECOND)):
        (content.diffs / f"{name}.diff").write_text(hunk)
        (tmp_path / f"series/{name}.txt").write_text(f"mm: {name}\n\nWhy.\n\n{SIGNED}\n")
    (tmp_path / "series/later/2.diff").write_text(GROWTH)
    (tmp_path / "series/cover.txt").write_text("mm: a series\n\nWhat it does.\n")
    script = kernel_dir / "scripts/get_maintainer.pl"
    script.write_text(
        r"m{(\d+)-[^/]*\.patch$} and print qq(A Maintainer of $1 <m\@k.org>\n) for @ARGV;"
    )
    return source.ensure(source=str(kernel_dir))


def composed(small: Path, content: Content, tmp_path: Path) -> compose.Composed:
    (tmp_path / "repository").mkdir()
    return compose.compose(content.base, small, ["share"], tmp_path / "repository")


def test_patches_are_made_one_by_one(small: Path, content: Content, tmp_path: Path) -> None:
    found = composed(small, content, tmp_path)
    first, second = found.commits["1"], found.commits["2"]
    assert found.content(first, "mm/copy.c") == b"copy\n"
    assert found.content(second, "mm/copy.c") == b"copy\nmore\n"
    assert found.files("1") == ["mm/copy.c", "mm/migrate.c"]
    assert found.content(f"{first}~1", "mm/copy.c") is None
    assert found.git("log", "-1", "--format=%B").strip().endswith(SIGNED)


def test_the_last_patch_leaves_what_the_tree_has(
    small: Path, content: Content, tmp_path: Path
) -> None:
    found = composed(small, content, tmp_path)
    where = tree.prepare("pagehaul", small, content.now())
    for name in ("mm/copy.c", "mm/migrate.c"):
        assert (where / name).read_bytes() == found.content("HEAD", name)


def test_what_a_patch_takes_back_must_be_there(
    small: Path, content: Content, tmp_path: Path
) -> None:
    (tmp_path / "series/later/2.diff").write_text(GROWTH.replace("+more", "+less"))
    with pytest.raises(PagehaulError, match=r"2\.diff does not apply: mm/copy\.c"):
        composed(small, content, tmp_path)


def test_a_part_without_the_one_that_finishes_its_files_is_refused(
    small: Path, content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = series.load().patches
    split = Series({"share": "", "more": ""}, (first, replace(second, part="more")), tmp_path)
    monkeypatch.setattr(series, "load", lambda: split)
    with pytest.raises(PagehaulError, match=r"mm/copy\.c: the patches one by one do not make"):
        composed(small, content, tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mm/migrate.c", lambda path: path.write_text("another\n")),
        ("mm/only-in-the-tree.c", Path.touch),
        ("mm/copy.c", Path.unlink),
    ],
)
def test_patches_that_make_another_tree_are_refused(
    name: str,
    change: Callable[[Path], object],
    small: Path,
    content: Content,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def changed(pristine: Path, what: series.Content, staging: Path) -> None:
        stage(pristine, what, staging)
        change(staging / name)

    stage = tree.stage
    monkeypatch.setattr(tree, "stage", changed)
    with pytest.raises(PagehaulError, match=f"{name}: the patches one by one do not make"):
        composed(small, content, tmp_path)


def test_a_message_needs_somebody_who_signs_it(
    small: Path, content: Content, tmp_path: Path
) -> None:
    (tmp_path / "series/2.txt").write_text("mm: 2\n\nWhy.\n")
    with pytest.raises(PagehaulError, match="who has signed it off"):
        composed(small, content, tmp_path)


def test_what_is_sent_first_has_a_cover_letter_of_its_own(
    small: Path, content: Content, tmp_path: Path
) -> None:
    found = composed(small, content, tmp_path)
    (tmp_path / "series/cover-share.txt").write_text("mm: a beginning\n\nWhat it does.\n")
    written = mails.write(small, found, ["1", "2"], tmp_path / "out")
    assert "Subject: [PATCH 0/2] mm: a beginning\n" in written[0].read_text()


def test_the_series_is_written_as_mails(small: Path, content: Content, tmp_path: Path) -> None:
    found = composed(small, content, tmp_path)
    written = mails.write(small, found, ["1", "2"], tmp_path / "out")
    names = ["0000-cover-letter.patch", "0001-mm-1.patch", "0002-mm-2.patch"]
    assert [path.name for path in written] == names
    cover = written[0].read_text()
    assert "Subject: [PATCH 0/2] mm: a series\n" in cover
    assert cover.count("Cc: ") == 2
    assert (
        "Cc: A Maintainer of 0001 <m@k.org>\nCc: A Maintainer of 0002 <m@k.org>\n\nWhat it does.\n"
    ) in cover
    assert "***" not in cover
    # They apply, as mails, to the pristine files.
    where = tmp_path / "applied"
    (where / "mm").mkdir(parents=True)
    (where / "mm/migrate.c").write_bytes((small / "mm/migrate.c").read_bytes())
    who = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        [*who, "commit", "-qm", "base"],
        [*who, "am", "-q", *map(str, written[1:])],
    ):
        subprocess.run(["git", "-C", where, *words], check=True)
    assert (where / "mm/copy.c").read_text() == "copy\nmore\n"
    with pytest.raises(PagehaulError, match="has patches already"):
        mails.write(small, found, ["1"], tmp_path / "out")


def test_mails_that_cannot_be_are_refused(small: Path, content: Content, tmp_path: Path) -> None:
    found = composed(small, content, tmp_path)
    with pytest.raises(PagehaulError, match="not in a row"):
        mails.write(small, found, ["2", "1"], tmp_path / "out")
    script = small / "scripts/get_maintainer.pl"
    script.chmod(0o644)
    script.write_text("")
    with pytest.raises(PagehaulError, match="names nobody"):
        mails.write(small, found, ["1", "2"], tmp_path / "out")


def test_what_a_base_changes_in_a_file_of_ours_stays(
    small: Path, content: Content, tmp_path: Path
) -> None:
    (content.overlay / "mm/other.c").write_text("copy\n")
    (content.diffs / "1.diff").write_text(HOOK + GROWTH.replace("copy.c", "other.c"))
    found = composed(small, content, tmp_path)
    assert found.content("HEAD", "mm/other.c") == b"copy\nmore\n"


def test_a_patch_that_a_base_does_not_need_is_left_out(content: Content) -> None:
    patch = Patch("x", "a", ())
    found = Series({"a": ""}, (patch,))
    assert found.chosen(content.base, ["a"]) == []
    (content.diffs / "x.diff").write_text(HOOK)
    assert found.chosen(content.base, ["a"]) == [patch]


def test_a_later_part_is_written_alone(small: Path, content: Content, tmp_path: Path) -> None:
    found = composed(small, content, tmp_path)
    written = mails.write(small, found, ["2"], tmp_path / "out")
    assert [path.name for path in written] == ["0000-cover-letter.patch", "0001-mm-2.patch"]
    text = written[1].read_text()
    assert re.search(r"^\+another hook$", text, re.M)
    assert not re.search(r"^\+hook$", text, re.M)


def test_a_patch_is_configured_with_what_there_is_by_then(tmp_path: Path) -> None:
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm/Kconfig").write_text("config MIGRATE_COPY\n\tbool\n")
    fragment = tmp_path / "pagehaul.config"
    fragment.write_text("CONFIG_MIGRATE_COPY=y\nCONFIG_MIGRATE_COPY_DCBM=m\nCONFIG_SMP=y\n")
    assert patches._known(fragment, tmp_path) == "CONFIG_MIGRATE_COPY=y\nCONFIG_SMP=y\n"


@pytest.mark.parametrize("name", bases.names())
def test_no_fragment_of_a_patch_replaces_another(name: str, tmp_path: Path) -> None:
    base = bases.get(name)
    fragments = build.fragments_of("pagehaul", base, X86_64)
    written = patches._fragments(base, REPO, tmp_path)
    assert len(set(written)) == len(fragments)
    assert "CONFIG_PCI=y" in "".join(path.read_text(encoding="utf-8") for path in written)


def test_warnings_of_a_build_but_those_of_macros(tmp_path: Path) -> None:
    log = tmp_path / "log"
    of_macro = "fs/namespace.c:6468:1170: warning: self-comparison [-Wtautological-compare]\n"
    log.write_text(f"  CC fs/namespace.o\n{of_macro}")
    assert build.warned(log) == ""
    other = "mm/migrate.c:9:1: warning: unused variable [-Wunused-variable]\n"
    log.write_text(f"{of_macro}{other}")
    assert build.warned(log).startswith("mm/migrate.c:9:1: warning: unused variable")
    assert "and 0 more" in build.warned(log)


def test_files_are_whole_after_each_patch(tmp_path: Path) -> None:
    for patch, files in compose.growth(series.load(), tmp_path).items():
        for name, data in files.items():
            if not name.endswith((".c", ".h")):
                continue
            text = data.decode()
            begun = len(re.findall(r"^#\s*if", text, re.MULTILINE))
            ended = len(re.findall(r"^#\s*endif", text, re.MULTILINE))
            assert begun == ended, f"{name} after {patch}"
            # A hunk of one patch that is in the next one takes half of a function with it.
            assert not re.search(r"^\{(?:(?!^\}).)*^\{", text, re.MULTILINE | re.DOTALL), (
                f"{name} after {patch}"
            )
