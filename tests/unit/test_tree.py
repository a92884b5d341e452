# SPDX-License-Identifier: GPL-2.0-only
"""Laying files and patches over a pristine tree: only what changes is touched, or nothing is."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Content
from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, series, source, tree

HOOK = """\
Subject: hook

--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -3,4 +3,5 @@
 three
 four
+hook
 five
 six
"""
MAKE = """\
--- a/mm/Makefile
+++ b/mm/Makefile
@@ -1 +1,2 @@
 obj-y += migrate.o
+obj-y += copy.o
"""
COPY = """\
--- a/mm/copy.c
+++ b/mm/copy.c
@@ -1 +1,2 @@
 copy
+as on this base
"""


@dataclass
class Setting:
    pristine: Path
    content: Content

    @property
    def overlay(self) -> Path:
        return self.content.overlay

    @property
    def patches(self) -> Path:
        return self.content.diffs

    def prepare(self, name: str = "pagehaul", built: Path | None = None) -> Path:
        what = None if name == "vanilla" else self.content.now()
        return tree.prepare(name, self.pristine, what, built=built)


@pytest.fixture
def setting(cache: Path, kernel_dir: Path, content: Content) -> Setting:
    result = Setting(source.ensure(source=str(kernel_dir)), content)
    (result.overlay / "mm").mkdir(parents=True)
    (result.overlay / "mm/copy.c").write_text("copy\n")
    (result.patches / "1.diff").write_text(HOOK)
    (result.patches / "2.diff").write_text(MAKE)
    return result


def snapshot(where: Path) -> dict[str, tuple[str, int, int]]:
    return {
        str(path.relative_to(where)): (
            path.read_bytes().hex(),
            path.stat().st_mtime_ns,
            path.stat().st_ino,
        )
        for path in where.rglob("*")
        if path.is_file()
    }


def changed(before: dict[str, tuple[str, int, int]], where: Path) -> set[str]:
    after = snapshot(where)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_files_and_patches_are_laid_over(setting: Setting) -> None:
    where = setting.prepare()
    assert (where / "mm/copy.c").read_text() == "copy\n"
    assert "four\nhook\nfive\n" in (where / "mm/migrate.c").read_text()
    assert "copy.o" in (where / "mm/Makefile").read_text()
    assert "hook" not in (setting.pristine / "mm/migrate.c").read_text()


def test_files_of_ours_that_a_base_changes_are_not_the_kernels_own(setting: Setting) -> None:
    (setting.patches / "3.diff").write_text(COPY)
    assert tree.patched_sources(setting.content.now()) == ["mm/migrate.c"]


def test_a_copy_that_was_interrupted_is_made_again(
    setting: Setting, kernel_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, before = setting.prepare(), setting.pristine

    def interrupt(path: Path) -> None:
        (path / "Kbuild").unlink()
        raise KeyboardInterrupt

    (kernel_dir / "more").touch()
    setting.pristine = source.ensure(source=str(kernel_dir))
    with monkeypatch.context() as patch:
        patch.setattr(tree, "remove_tree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            setting.prepare()
    setting.pristine = before
    assert setting.prepare() == where
    assert (where / "Kbuild").exists()


def test_vanilla_is_the_pristine_source(setting: Setting) -> None:
    where = setting.prepare("vanilla")
    for path in setting.pristine.rglob("*"):
        if path.is_file():
            assert (where / path.relative_to(setting.pristine)).read_bytes() == path.read_bytes()
    assert not (where / "mm/copy.c").exists()
    (where / "mm/migrate.c").write_text("a build can write here")


def test_nothing_changed_touches_nothing(setting: Setting) -> None:
    where = setting.prepare()
    before, digest = snapshot(where), tree.digest(where)
    setting.prepare()
    assert changed(before, where) == set()
    assert tree.digest(where) == digest


def test_one_changed_file_touches_one(setting: Setting) -> None:
    where = setting.prepare()
    before, digest = snapshot(where), tree.digest(where)
    (setting.overlay / "mm/copy.c").write_text("better copy\n")
    setting.prepare()
    assert changed(before, where) == {"mm/copy.c"}
    assert tree.digest(where) != digest


def test_one_changed_patch_touches_its_file(setting: Setting) -> None:
    where = setting.prepare()
    before = snapshot(where)
    (setting.patches / "1.diff").write_text(HOOK.replace("+hook", "+better hook"))
    setting.prepare()
    assert changed(before, where) == {"mm/migrate.c"}


def test_what_is_touched_no_more_is_pristine_again(setting: Setting) -> None:
    where = setting.prepare()
    before = snapshot(where)
    (setting.patches / "1.diff").unlink()
    (setting.overlay / "mm/copy.c").unlink()
    setting.prepare()
    assert changed(before, where) == {"mm/migrate.c", "mm/copy.c"}
    assert (where / "mm/migrate.c").read_text() == (setting.pristine / "mm/migrate.c").read_text()
    assert not (where / "mm/copy.c").exists()


def test_built_files_stay(setting: Setting) -> None:
    where = setting.prepare()
    (where / "mm/copy.o").write_text("object")
    (setting.overlay / "mm/copy.c").write_text("better copy\n")
    setting.prepare()
    assert (where / "mm/copy.o").exists()


def test_patch_that_does_not_apply_is_named_and_leaves_the_tree(setting: Setting) -> None:
    where = setting.prepare()
    before, digest = snapshot(where), tree.digest(where)
    (setting.patches / "1.diff").write_text(HOOK.replace("+hook", "+another hook"))
    (setting.patches / "2.diff").write_text(MAKE.replace(" obj-y", " obj-m"))
    with pytest.raises(PagehaulError) as error:
        setting.prepare()
    assert "2.diff does not apply: mm/Makefile, hunk #1 at 1" in str(error.value)
    assert changed(before, where) == set()
    assert tree.digest(where) == digest
    assert [path.name for path in where.parent.iterdir() if path.name.startswith(".")] == []


def test_patch_for_a_missing_file_is_named(setting: Setting) -> None:
    (setting.patches / "3.diff").write_text(MAKE.replace("mm/Makefile", "mm/gone.c"))
    with pytest.raises(PagehaulError, match=r"3.diff does not apply: .*gone.c"):
        setting.prepare()


def test_patch_must_apply_without_fuzz(setting: Setting) -> None:
    (setting.patches / "1.diff").write_text(HOOK.replace(" three", " THREE"))
    with pytest.raises(PagehaulError, match=r"1.diff .*mm/migrate.c, hunk #1"):
        setting.prepare()


def test_patch_cannot_leave_the_tree(setting: Setting) -> None:
    (setting.patches / "1.diff").write_text(HOOK.replace("mm/migrate.c", "../../x"))
    with pytest.raises(PagehaulError, match="outside the kernel"):
        setting.prepare()


def test_overlay_cannot_replace_a_kernel_file(setting: Setting) -> None:
    (setting.overlay / "mm/migrate.c").write_text("mine\n")
    with pytest.raises(PagehaulError, match="by a patch instead"):
        setting.prepare()


def test_interrupted_installation_is_made_good(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = setting.prepare()
    (setting.overlay / "mm/a_new.c").write_text("new\n")
    (setting.overlay / "mm/copy.c").write_text("better copy\n")
    replace = tree._replace

    def interrupted(new: Path, old: Path) -> None:
        replace(new, old)
        if old.name == "a_new.c":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tree, "_replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            setting.prepare()
    assert (where / "mm/a_new.c").exists()
    # The file is not wanted any more; that it was installed must not have been forgotten.
    (setting.overlay / "mm/a_new.c").unlink()
    setting.prepare()
    assert not (where / "mm/a_new.c").exists()
    assert (where / "mm/copy.c").read_text() == "better copy\n"


def test_new_source_makes_a_new_tree(setting: Setting, kernel_dir: Path) -> None:
    where = setting.prepare()
    (where / "stale.o").write_text("")
    (kernel_dir / "mm/other.c").write_text("other\n")
    setting.pristine = source.ensure(source=str(kernel_dir))
    setting.prepare()
    assert (where / "mm/other.c").exists() and not (where / "stale.o").exists()
    assert "hook" in (where / "mm/migrate.c").read_text()


def test_the_projects_own_patches_are_well_formed() -> None:
    for name in bases.names():
        base = bases.get(name)
        found = series.content(base, list(series.load().parts))
        assert found.diffs and found.files
        assert all(tree.patched_files(diff) for diff in found.diffs)
        # None is left over.
        assert sorted(found.diffs) == sorted(base.patches.iterdir())


def test_a_new_tree_starts_from_the_built_one(setting: Setting) -> None:
    vanilla = setting.prepare("vanilla")
    (vanilla / "mm/migrate.o").write_text("object")
    (vanilla / "tools/objtool").mkdir(parents=True)
    command = vanilla / "tools/objtool/.check.o.cmd"
    command.write_text(f"cmd_check.o := gcc -I{vanilla}/tools/include\n")
    where = setting.prepare(built=vanilla)
    assert (where / "mm/migrate.o").read_text() == "object"
    assert "hook" in (where / "mm/migrate.c").read_text()
    assert (where / "mm/migrate.c").stat().st_mtime > (where / "mm/migrate.o").stat().st_mtime
    copied = (where / "tools/objtool/.check.o.cmd").read_text()
    assert copied == f"cmd_check.o := gcc -I{where}/tools/include\n"
    assert str(vanilla) in command.read_text()


def test_objects_of_another_source_are_not_used(setting: Setting, kernel_dir: Path) -> None:
    vanilla = setting.prepare("vanilla")
    (vanilla / "mm/migrate.o").write_text("object")
    (kernel_dir / "mm/other.c").write_text("other\n")
    setting.pristine = source.ensure(source=str(kernel_dir))
    where = setting.prepare(built=vanilla)
    assert not (where / "mm/migrate.o").exists()
