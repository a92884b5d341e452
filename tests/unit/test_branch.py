# SPDX-License-Identifier: GPL-2.0-only
"""The series as a branch of git, and an edited branch taken back."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import Content
from pagehaul.cli.main import main
from pagehaul.errors import PagehaulError
from pagehaul.kernel import absorb, bases, branch, compose, git, mails, series, source

WHO = "A B <a@b.c>"

SERIES = """\
# All of it.
[[part]]
name = "one"
title = "One"

[[part]]
name = "two"
title = "Two"

[[part]]
name = "test-hooks"
title = "Hooks"

[[patch]]
name = "copy"
part = "one"
files = ["mm/copy.c"]

# A pattern, and a comment.
[[patch]]
name = "more"
part = "two"
files = ["mm/more/*"]

[[patch]]
name = "hooks"
part = "test-hooks"
files = ["mm/hooks.c"]
"""

COPY = """\
diff --git a/mm/migrate.c b/mm/migrate.c
--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -1,4 +1,5 @@
 one
+hook
 two
 three
 four
"""
MORE = """\
diff --git a/mm/migrate.c b/mm/migrate.c
--- a/mm/migrate.c
+++ b/mm/migrate.c
@@ -6,3 +6,4 @@ four
 five
 six
 seven
+eight
"""
LATER = """\
diff --git a/mm/copy.c b/mm/copy.c
--- a/mm/copy.c
+++ b/mm/copy.c
@@ -3,3 +3,4 @@ copy
 2
 3
 4
+more
"""
HOOKS = """\
diff --git a/mm/copy.c b/mm/copy.c
--- a/mm/copy.c
+++ b/mm/copy.c
@@ -4,3 +4,4 @@
 3
 4
 more
+test
"""


@pytest.fixture
def pristine(
    content: Content, kernel_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The source for a series of three patches, one of them on top of the others."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\nname = A B\nemail = a@b.c\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    pieces = {
        "series/series.toml": SERIES,
        "series/cover.txt": "mm: a series\n\nWhat it does.\n",
        "series/later/more.diff": LATER,
        "kernel/mm/copy.c": "copy\n1\n2\n3\n4\nmore\n",
        "kernel/mm/more/a.c": "a\n",
        "kernel/mm/hooks.c": "hooks\n",
    }
    for name, diff in (("copy", COPY), ("more", MORE), ("hooks", HOOKS)):
        pieces[f"bases/7.3/patches/{name}.diff"] = diff
    for name in ("copy", "more", "hooks", "combined"):
        text = f"mm/migrate: let it {name}\n\nWhy.\n\nSigned-off-by: {compose.SIGNER}\n"
        pieces[f"series/{name}.txt"] = text
    for name, text in pieces.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(series, "load", lambda: series.read(tmp_path))
    script = kernel_dir / "scripts/get_maintainer.pl"
    script.write_text(r"print qq(A Maintainer <m\@k.org>\n);")
    return source.ensure(source=str(kernel_dir))


@pytest.fixture
def made(pristine: Path, content: Content, tmp_path: Path) -> Path:
    """A repository with the branch."""
    branch.make(content.base, pristine, tmp_path / "linux")
    return tmp_path / "linux"


def pieces(tmp_path: Path) -> Mapping[str, str]:
    """Return all pieces by their paths."""
    return {
        str(path.relative_to(tmp_path)): path.read_text()
        for top in ("bases", "kernel", "series")
        for path in (tmp_path / top).rglob("*")
        if path.is_file()
    }


def run(where: Path, *words: str, editor: str = "true") -> str:
    """Run git as a user does; editor edits lists of commits and messages."""
    script = ["-c", f"sequence.editor={editor}", "-c", f"core.editor={editor}"]
    done = subprocess.run(
        ["git", "-C", where, *script, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(where: Path, subject: str, files: Mapping[str, str]) -> None:
    """Commit files with what they are to have."""
    for name, text in files.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(text)
        run(where, "add", "--", name)
    run(where, "commit", "--signoff", "-m", subject, "-m", "Why.")


def test_a_branch_has_a_commit_of_the_user_for_each_patch(made: Path) -> None:
    log = run(made, "log", "--reverse", "--format=%s %an %ae", "pagehaul-7.3-base..pagehaul-7.3")
    assert log.splitlines() == [
        f"mm/migrate: let it {name} A B a@b.c" for name in ("copy", "more", "hooks")
    ]
    assert run(made, "log", "-1", "--format=%(trailers)") == f"Signed-off-by: {WHO}"
    assert run(made, "show", "HEAD~2:mm/copy.c") == "copy\n1\n2\n3\n4"
    assert run(made, "status", "--porcelain") == ""


def test_a_branch_that_was_not_edited_changes_nothing(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    before = pieces(tmp_path)
    assert absorb.absorb(content.base, pristine, made) == []
    assert pieces(tmp_path) == before


def test_an_edited_patch_is_taken_back(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    before = pieces(tmp_path)
    # One line more at the top of a new file, and of a kernel's, in the first patch; a reworded one.
    run(made, "checkout", "--quiet", "HEAD~2")
    (made / "mm/copy.c").write_text("first\ncopy\n1\n2\n3\n4\n")
    (made / "mm/migrate.c").write_text("zero\n" + (made / "mm/migrate.c").read_text())
    run(made, "commit", "--all", "--amend", "--no-edit")
    run(made, "rebase", "--onto", "HEAD", "pagehaul-7.3~2", "pagehaul-7.3")
    run(made, "commit", "--amend", "-m", "mm: reworded\n\nWell.\n", "--signoff")
    changed = absorb.absorb(content.base, pristine, made)
    after = pieces(tmp_path)
    assert changed == [
        f"written {name}" for name in sorted(after) if after[name] != before.get(name)
    ]
    assert after["kernel/mm/copy.c"] == "first\ncopy\n1\n2\n3\n4\nmore\n"
    assert after["series/later/more.diff"] == LATER.replace("@@ -3,3 +3,4 @@", "@@ -4,3 +4,4 @@")
    assert after["bases/7.3/patches/copy.diff"] == COPY.replace(
        "@@ -1,4 +1,5 @@\n", "@@ -1,4 +1,6 @@\n+zero\n"
    )
    assert after["series/hooks.txt"] == (
        f"mm: reworded\n\nWell.\n\nSigned-off-by: {compose.SIGNER}\n"
    )
    assert after["series/series.toml"] == SERIES
    assert set(after) == set(before)


def test_patches_come_and_go(made: Path, pristine: Path, content: Content, tmp_path: Path) -> None:
    # The first two become one; there is a new one behind them, and one in the hooks.
    run(made, "checkout", "--quiet", "HEAD~1")
    run(made, "rebase", "-i", "HEAD~2", editor="sed -i '2s/pick/fixup/'")
    commit(made, "mm/migrate: say how it went, at last", {"mm/new.c": "n\n", "mm/more/a.c": "b\n"})
    run(made, "rebase", "--onto", "HEAD", "pagehaul-7.3~1", "pagehaul-7.3")
    absorb.absorb(content.base, pristine, made)
    found = series.read(tmp_path).patches
    assert [(each.name, each.part, each.files) for each in found] == [
        ("copy", "one", ("mm/copy.c", "mm/more/a.c")),
        ("say-how-it-went", "one", ("mm/new.c",)),
        ("hooks", "test-hooks", ("mm/hooks.c",)),
    ]
    after = pieces(tmp_path)
    assert 'files = [\n    "mm/copy.c",\n    "mm/more/a.c",\n]\n' in after["series/series.toml"]
    assert "+b\n" in after["series/later/say-how-it-went.diff"]
    assert {"series/more.txt", "series/later/more.diff", "bases/7.3/patches/more.diff"}.isdisjoint(
        after
    )
    # A branch made from the absorbed series is the same.
    branch.make(content.base, pristine, tmp_path / "again")
    assert run(tmp_path / "again", "rev-parse", "HEAD^{tree}") == run(
        made, "rev-parse", "HEAD^{tree}"
    )
    assert absorb.absorb(content.base, pristine, tmp_path / "again") == []


def test_a_patch_may_change_only_what_earlier_ones_have_brought(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    run(made, "reset", "--quiet", "--hard", "HEAD~2")
    copy = (made / "mm/copy.c").read_text()
    commit(made, "mm/copy: say so", {"mm/copy.c": f"so\n{copy}"})
    absorb.absorb(content.base, pristine, made)
    after = pieces(tmp_path)
    assert "+so\n" in after["series/later/say-so.diff"]
    assert "bases/7.3/patches/say-so.diff" not in after
    branch.make(content.base, pristine, tmp_path / "again")
    assert run(tmp_path / "again", "log", "-1", "--format=%s") == "mm/copy: say so"
    assert absorb.absorb(content.base, pristine, tmp_path / "again") == []


def test_a_new_file_that_a_pattern_names_needs_no_entry(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    (made / "mm/more/b.c").write_text("b\n")
    run(made, "add", "mm/more/b.c")
    run(made, "commit", "--fixup=HEAD~1")
    run(made, "rebase", "-i", "--autosquash", "HEAD~3")
    absorb.absorb(content.base, pristine, made)
    assert series.read(tmp_path).patches[1].files == ("mm/more/a.c", "mm/more/b.c")
    assert pieces(tmp_path)["series/series.toml"] == SERIES


def test_a_pattern_that_names_a_file_of_another_patch_goes(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    run(made, "checkout", "--quiet", "HEAD~1")
    commit(made, "mm/migrate: even more", {"mm/more/b.c": "b\n"})
    run(made, "rebase", "--onto", "HEAD", "pagehaul-7.3~1", "pagehaul-7.3")
    absorb.absorb(content.base, pristine, made)
    found = {each.name: each.files for each in series.read(tmp_path).patches}
    assert found["more"] == ("mm/more/a.c",)
    assert found["even-more"] == ("mm/more/b.c",)
    assert "# A pattern, and a comment.\n[[patch]]" in pieces(tmp_path)["series/series.toml"]


def test_a_patch_without_a_note_is_known_by_its_subject(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    run(made, "update-ref", "-d", "refs/notes/pagehaul")
    assert absorb.absorb(content.base, pristine, made) == []


def test_a_note_gives_a_patch_its_name_and_part(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    run(made, "notes", "--ref=pagehaul", "add", "-f", "-m", "two/much-more", "HEAD~1")
    absorb.absorb(content.base, pristine, made)
    assert [each.name for each in series.read(tmp_path).patches] == ["copy", "much-more", "hooks"]
    assert pieces(tmp_path)["series/later/much-more.diff"] == LATER
    run(made, "notes", "--ref=pagehaul", "add", "-f", "-m", "one/much-more", "HEAD~1")
    assert absorb.absorb(content.base, pristine, made) == ["written series/series.toml"]
    assert series.read(tmp_path).patches[1].part == "one"
    for note, what in (("a/b", "a, in the note of"), ("one/B", "'B', the note of")):
        run(made, "notes", "--ref=pagehaul", "add", "-f", "-m", note, "HEAD~1")
        with pytest.raises(PagehaulError, match=what):
            absorb.absorb(content.base, pristine, made)


@pytest.mark.parametrize(
    ("files", "subject", "what"),
    [
        ({}, "mm: x", "'mm: x' changes nothing"),
        ({"mm/migrate.c": "\0\n"}, "mm: x", "changes a file that is no text"),
        ({"mm/new.c": "\n"}, "x\ny", "needs a line, an empty line"),
    ],
)
def test_a_commit_that_cannot_be_a_patch_is_refused(
    files: Mapping[str, str],
    subject: str,
    what: str,
    made: Path,
    pristine: Path,
    content: Content,
    tmp_path: Path,
) -> None:
    before = pieces(tmp_path)
    for name, text in files.items():
        (made / name).write_text(text)
        run(made, "add", name)
    run(made, "commit", "--allow-empty", "-m", f"{subject}\n\nWhy.\n\nSigned-off-by: {WHO}")
    with pytest.raises(PagehaulError, match=what):
        absorb.absorb(content.base, pristine, made)
    assert pieces(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["rm", "-q", "mm/more/a.c"], "removes mm/more/a.c"),
        (["update-index", "--chmod=+x", "mm/copy.c"], "gives mm/copy.c the mode 100755"),
    ],
)
def test_files_that_go_or_run_are_refused(
    words: list[str], what: str, made: Path, pristine: Path, content: Content
) -> None:
    run(made, *words)
    run(made, "commit", "-m", "mm: x")
    run(made, "reset", "--quiet", "--hard")
    with pytest.raises(PagehaulError, match=what):
        absorb.absorb(content.base, pristine, made)


def test_a_branch_that_is_not_whole_is_refused(
    made: Path, pristine: Path, content: Content, tmp_path: Path
) -> None:
    (made / "mm/copy.c").write_text("")
    with pytest.raises(PagehaulError, match="not committed"):
        absorb.absorb(content.base, pristine, made)
    run(made, "reset", "--quiet", "--hard")
    (made / ".git/rebase-merge").mkdir()
    with pytest.raises(PagehaulError, match="in the middle of a rebase"):
        absorb.absorb(content.base, pristine, made)
    (made / ".git/rebase-merge").rmdir()
    other = run(made, "commit-tree", "-p", "HEAD~1", "-m", "x", "HEAD^{tree}")
    run(made, "merge", "--no-ff", "-m", "a merge", other)
    with pytest.raises(PagehaulError, match=r"is a merge"):
        absorb.absorb(content.base, pristine, made)
    run(made, "checkout", "--quiet", "--orphan", "alone")
    run(made, "commit", "-m", "alone")
    with pytest.raises(PagehaulError, match=r"not on pagehaul|merge-base"):
        absorb.absorb(content.base, pristine, made)
    with pytest.raises(PagehaulError, match="no tag pagehaul-"):
        absorb.absorb(content.base, pristine, tmp_path / "none")


def test_what_is_on_top_stays_there(made: Path, pristine: Path, content: Content) -> None:
    run(made, "rebase", "-i", "HEAD~1", editor="sed -i '1i exec true'")
    commit(made, "mm: more", {"mm/new.c": "n\n"})
    run(made, "notes", "--ref=pagehaul", "add", "-m", "copy", "HEAD")
    run(made, "notes", "--ref=pagehaul", "remove", "HEAD~3")
    run(made, "notes", "--ref=pagehaul", "add", "-m", "other", "HEAD~3")
    with pytest.raises(PagehaulError, match="copy is behind hooks, which must be on top"):
        absorb.absorb(content.base, pristine, made)


def test_hunks_that_do_not_fit_are_named_and_nothing_changes(
    made: Path,
    pristine: Path,
    content: Content,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = pieces(tmp_path)
    (made / "mm/migrate.c").write_text("hook\n" + (made / "mm/migrate.c").read_text())
    run(made, "commit", "--all", "--amend", "--no-edit")
    diff = absorb._diff

    def broken(path: Path, changes: branch.Changes) -> bytes | None:
        found = diff(path, changes)
        return found.replace(b"+hook\n one", b"+knock\n one") if found else found

    monkeypatch.setattr(absorb, "_diff", broken)
    with pytest.raises(PagehaulError, match=r"hooks: its hunks of mm/migrate\.c do not fit"):
        absorb.absorb(content.base, pristine, made)
    assert pieces(tmp_path) == before


def test_the_cover_letter_of_b4_is_no_patch(made: Path, pristine: Path, content: Content) -> None:
    text = "EDITME\n\n--- b4-submit-tracking ---\n{}"
    run(made, "commit", "--allow-empty", "-m", text)
    assert absorb.absorb(content.base, pristine, made) == []


def test_a_branch_may_be_in_a_clone_of_the_kernel(
    pristine: Path, content: Content, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    (clone / "mm").mkdir(parents=True)
    (clone / "mm/migrate.c").write_bytes((pristine / "mm/migrate.c").read_bytes())
    (clone / "README").write_text("Linux\n")
    run(clone, "init", "--quiet")
    run(clone, "add", ".")
    run(clone, "commit", "-qm", "Linux 7.3")
    branch.make(content.base, pristine, clone)
    assert run(clone, "rev-list", "--count", "HEAD") == "4"
    assert absorb.absorb(content.base, pristine, clone) == []
    with pytest.raises(PagehaulError, match="git branch -D pagehaul-"):
        branch.make(content.base, pristine, clone)
    for words in (
        ["checkout", "--quiet", "pagehaul-7.3-base"],
        ["branch", "-D", "pagehaul-7.3"],
        ["tag", "-d", "pagehaul-7.3-base"],
    ):
        run(clone, *words)
    commit(clone, "mm: other", {"mm/migrate.c": "other\n"})
    with pytest.raises(PagehaulError, match=r"mm/migrate\.c at HEAD of .*--source"):
        branch.make(content.base, pristine, clone)


def test_git_must_know_who_signs(
    pristine: Path, content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with pytest.raises(PagehaulError, match=r"git config --global user\.name"):
        git.identity(tmp_path)
    run(tmp_path, "init", "--quiet")
    run(tmp_path, "config", "user.name", "A")
    with pytest.raises(PagehaulError, match=r"git config --global user\.email"):
        git.identity(tmp_path)


def as_other_base(content: Content, tmp_path: Path) -> bases.Base:
    """Return a base of the same kernel that is not the default one, with the same hunks."""
    other = tmp_path / "bases/7.2"
    (other / "patches").mkdir(parents=True)
    for path in content.diffs.iterdir():
        (other / "patches" / path.name).write_text(path.read_text())
    return bases.Base("7.2", "linux", tmp_path / "none", None, "7.2.9", other)


def test_another_base_has_one_diff(pristine: Path, content: Content, tmp_path: Path) -> None:
    base = as_other_base(content, tmp_path)
    where = tmp_path / "linux"
    before = pieces(tmp_path)
    branch.make(base, pristine, where)
    assert run(where, "rev-list", "--count", "HEAD") == "4"
    tree = run(where, "rev-parse", "HEAD^{tree}")
    changed = absorb.absorb(base, pristine, where)
    assert changed == [
        "written bases/7.2/patches/combined.diff",
        "removed bases/7.2/patches/copy.diff",
        "removed bases/7.2/patches/more.diff",
    ]
    after = pieces(tmp_path)
    assert after["bases/7.2/patches/hooks.diff"] == HOOKS
    assert {name: text for name, text in after.items() if "7.2" not in name} == {
        name: text for name, text in before.items() if "7.2" not in name
    }
    again = tmp_path / "again"
    branch.make(base, pristine, again)
    assert run(again, "rev-list", "--count", "HEAD") == "3"
    assert run(again, "rev-parse", "HEAD^{tree}") == tree
    assert absorb.absorb(base, pristine, again) == []
    # What that base alone has in a new file is in its diff.
    commit(again, "mm: fix", {"mm/copy.c": "copy\nold\n"})
    with pytest.raises(PagehaulError, match="'mm: fix' is no patch of "):
        absorb.absorb(base, pristine, again)
    run(again, "reset", "--quiet", "--hard", "HEAD~2")
    commit(again, "mm: fix", {"mm/copy.c": "copy\nold\n"})
    run(again, "checkout", "--quiet", "-B", "pagehaul-7.2")
    with pytest.raises(PagehaulError, match=r"mm/hooks|these would be other patches"):
        absorb.absorb(base, pristine, again)


def test_another_base_may_change_new_files(
    pristine: Path, content: Content, tmp_path: Path
) -> None:
    base = as_other_base(content, tmp_path)
    where = tmp_path / "linux"
    branch.make(base, pristine, where)
    run(where, "checkout", "--quiet", "HEAD~1")
    commit(where, "mm: fix", {"mm/more/a.c": "old\n", "mm/Makefile": "obj-y += more/\n"})
    run(where, "rebase", "--onto", "HEAD", "pagehaul-7.2~1", "pagehaul-7.2")
    absorb.absorb(base, pristine, where)
    found = pieces(tmp_path)
    assert "+old\n" in found["bases/7.2/patches/combined.diff"]
    assert found["kernel/mm/more/a.c"] == "a\n"
    again = tmp_path / "again"
    branch.make(base, pristine, again)
    assert (again / "mm/more/a.c").read_text() == "old\n"


def written(pristine: Path, content: Content, out: Path, version: mails.Version) -> list[Path]:
    """Return mails of the first two patches."""
    where = out.with_name(f"{out.name}.repository")
    where.mkdir()
    done = compose.compose(content.base, pristine, ["one", "two"], where, WHO, version.touched())
    return mails.write(pristine, done, ["copy", "more"], out, version)


def test_a_version_says_what_changed(pristine: Path, content: Content, tmp_path: Path) -> None:
    one = tmp_path / "one"
    written(pristine, content, one, mails.Version(rfc=True))
    assert (
        "Subject: [RFC PATCH 1/2] mm/migrate: let it copy" in next(one.glob("0001-*")).read_text()
    )
    assert f"From: {WHO}" in next(one.glob("0001-*")).read_text()
    (content.overlay / "mm/more/a.c").write_text("another\n")
    # The version before has a hunk in a file that is not touched any more.
    (content.diffs / "copy.diff").write_text(COPY.replace("hook", "knock"))
    version = mails.Version(2, before=one, base_commit="0" * 40)
    found = written(pristine, content, tmp_path / "two", version)
    assert [path.name for path in found] == [
        "v2-0000-cover-letter.patch",
        "v2-0001-mm-migrate-let-it-copy.patch",
        "v2-0002-mm-migrate-let-it-more.patch",
    ]
    cover = found[0].read_text()
    assert "Subject: [PATCH v2 0/2] mm: a series" in cover
    assert "Range-diff against v1:" in cover
    assert "    -+another" in cover or "++another" in cover
    assert cover.endswith(f"\n\nbase-commit: {'0' * 40}\n")
    # Its own mails are the ones before the next.
    version = mails.Version(3, before=tmp_path / "two")
    cover = written(pristine, content, tmp_path / "three", version)[0].read_text()
    assert "1:  " in cover and " = 1:" in cover and " = 2:" in cover


def test_a_version_before_that_cannot_be_is_refused(
    pristine: Path, content: Content, tmp_path: Path
) -> None:
    one = tmp_path / "one"
    one.mkdir()
    version = mails.Version(2, before=one)
    with pytest.raises(PagehaulError, match=r"has no \*\.patch"):
        version.touched()
    first = written(pristine, content, tmp_path / "two", mails.Version())[1]
    (one / "0001-x.patch").write_text(first.read_text().replace(" two", " 2"))
    with pytest.raises(PagehaulError, match="do not apply to what these parts are on"):
        written(pristine, content, tmp_path / "three", version)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--branch", "x", "--rfc"], "give --out"),
        (["--check", "-v", "2"], "give --out"),
        (["--out", "x", "-v", "0"], "a number from 1 on"),
        (["--out", "x", "-v", "2"], "--since"),
        (["--out", "x", "--base-commit", "7.3"], "40 digits"),
        (["--branch", "x", "--part", "batches"], "leave out --part"),
        (["--out", "x", "--base", "6.12"], "give --branch DIR"),
        (["--check", "--base", "6.12", "--part", "batches"], "not in parts"),
    ],
)
def test_options_that_do_not_fit(
    words: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "ensure", lambda *_: pytest.fail("went on"))
    assert main(["series", *words]) != 0
    assert what in " ".join(capsys.readouterr().err.split())
