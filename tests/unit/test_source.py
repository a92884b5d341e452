# SPDX-License-Identifier: GPL-2.0-only
"""The pristine source: unpacked whole or not at all, and kept as it was."""

import io
import os
import tarfile
import urllib.request
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.host import debian
from pagehaul.kernel import bases, source


@pytest.fixture
def tarball(kernel_dir: Path) -> Path:
    path = kernel_dir.parent / "linux-source-7.3.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(kernel_dir, "linux-source-7.3")
    return path


def left_over(cache: Path) -> list[str]:
    return [path.name for path in (cache / "source").iterdir()]


def test_tarball_is_unpacked_read_only(cache: Path, tarball: Path) -> None:
    tree = source.ensure(source=str(tarball))
    assert tree.is_relative_to(cache / "source")
    assert tree.name.startswith("linux-source-7.3-")
    assert (tree / "mm/migrate.c").read_text().startswith("one\n")
    assert source.version(tree) == "7.3.99"
    assert not any(path.stat().st_mode & 0o222 for path in [tree, *tree.rglob("*")])


def test_second_time_takes_what_is_there(cache: Path, tarball: Path) -> None:
    first = source.ensure(source=str(tarball))
    inode = (first / "Makefile").stat().st_ino
    assert source.ensure(source=str(tarball)) == first
    assert (first / "Makefile").stat().st_ino == inode


def test_directory_is_copied_without_git(cache: Path, kernel_dir: Path) -> None:
    (kernel_dir / ".git").mkdir()
    (kernel_dir / ".git/HEAD").write_text("x")
    tree = source.ensure(source=str(kernel_dir))
    assert (tree / "Kbuild").exists() and not (tree / ".git").exists()


def test_changed_directory_is_another_source(cache: Path, kernel_dir: Path) -> None:
    first = source.ensure(source=str(kernel_dir))
    file = kernel_dir / "mm/migrate.c"
    # As long as before.
    text = file.read_text().replace("one", "two")
    file.write_text(text)
    os.utime(file, (1, 1))
    second = source.ensure(source=str(kernel_dir))
    assert second != first
    assert (second / "mm/migrate.c").read_text() == text
    assert source.stamp(first) != source.stamp(second)


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_changed_cache_is_noticed(cache: Path, tarball: Path, change: str) -> None:
    tree = source.ensure(source=str(tarball))
    (tree / "mm").chmod(0o755)
    (tree / "mm/migrate.c").chmod(0o644)
    if change == "edit":
        (tree / "mm/migrate.c").write_text("changed\n")
    elif change == "add":
        (tree / "mm/new.c").write_text("")
    else:
        (tree / "mm/migrate.c").unlink()
    with pytest.raises(PagehaulError, match="no longer pristine"):
        source.ensure(source=str(tarball))


def test_broken_tarball_leaves_nothing(cache: Path, tarball: Path) -> None:
    tarball.write_bytes(tarball.read_bytes()[:-100])
    with pytest.raises(PagehaulError, match="unpacking"):
        source.ensure(source=str(tarball))
    assert left_over(cache) == []


def test_interrupted_unpacking_leaves_nothing(
    cache: Path, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(tree: Path) -> dict[str, object]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(source, "_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            source.ensure(source=str(tarball))
    assert left_over(cache) == []
    assert source.ensure(source=str(tarball)).exists()


@pytest.mark.parametrize("level", [1, 30])
def test_other_series_is_refused(level: int, cache: Path, kernel_dir: Path) -> None:
    makefile = kernel_dir / "Makefile"
    makefile.write_text(makefile.read_text().replace("PATCHLEVEL = 3", f"PATCHLEVEL = {level}"))
    with pytest.raises(PagehaulError, match=rf"is Linux 7\.{level}\.99, not 7\.3"):
        source.ensure(source=str(kernel_dir))
    assert left_over(cache) == []


def test_what_is_no_kernel_is_refused(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match="is not a kernel source"):
        source.ensure(source=str(tmp_path))
    with pytest.raises(PagehaulError, match="give a directory or a tarball"):
        source.ensure(source=str(tmp_path / "missing"))


def test_directory_that_was_built_in_is_refused(cache: Path, kernel_dir: Path) -> None:
    (kernel_dir / ".config").write_text("")
    with pytest.raises(PagehaulError, match="make mrproper"):
        source.ensure(source=str(kernel_dir))


def test_failed_download_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody listens on the discard port.
    monkeypatch.setattr(bases, "_KERNEL_ORG", "https://127.0.0.1:9/linux-{version}.tar.xz")
    with pytest.raises(PagehaulError, match=r"cannot download .*--source"):
        source.ensure(source="7.3.1")
    assert left_over(cache) == []


def test_a_download_that_is_cut_short_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Response(io.BytesIO):
        headers = Message()

    Response.headers["Content-Length"] = "9"
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Response(b"half"))
    with pytest.raises(PagehaulError, match="the transfer was cut short"):
        source.ensure(source="7.3.1")
    assert left_over(cache) == []


@pytest.mark.parametrize(
    "os_release",
    ["ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n", "ID=fedora\n", "ID=arch\n"],
)
def test_systems_without_the_package_have_it_from_kernel_org(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, os_release: str
) -> None:
    (tmp_path / "os-release").write_text(os_release)
    monkeypatch.setattr(debian, "_OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(source.tools, "require", lambda *names: pytest.fail(f"wants {names}"))
    base = replace(bases.get("6.12"), tarball=tmp_path / "none")
    # Nobody listens on the discard port.
    monkeypatch.setattr(bases, "_KERNEL_ORG", "https://127.0.0.1:9/linux-{version}.tar.xz")
    with pytest.raises(PagehaulError, match=rf"cannot download .*/linux-{base.kernel_org}\.tar"):
        source.ensure(base)
