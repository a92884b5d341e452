# SPDX-License-Identifier: GPL-2.0-only
"""Packages that are not installed, with a pretended apt-get and dpkg-deb."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.host import debian

Fake = Callable[[str, str], Path]

APT = """\
echo "$@" >> "$0.calls"
case "$*" in
*download-only*) touch archives/widget_2_amd64.deb archives/libwidget_2_amd64.deb
    cp sources.list "$0.sources" ;;
*download*) touch widget_1_arm64.deb ;;
esac
"""


@pytest.fixture
def apt(cache: Path, fake_command: Fake) -> Path:
    name = "name=${2##*/}; name=${name%%_*}"
    fake_command("dpkg-deb", f'{name}; mkdir -p "$3/bin"; echo "$2" > "$3/bin/$name"')
    return fake_command("apt-get", APT)


def calls(apt: Path) -> list[str]:
    return apt.with_name("apt-get.calls").read_text().splitlines()


def test_package_is_unpacked_once(apt: Path) -> None:
    files = debian.unpack("widget", "arm64")
    assert (files / "bin/widget").read_text().endswith("widget_1_arm64.deb\n")
    assert debian.unpack("widget", "arm64") == files
    assert [line.split()[-1] for line in calls(apt)] == ["update", "widget"]


def test_the_lists_of_this_machine_are_left_alone(apt: Path, cache: Path) -> None:
    debian.unpack("widget", "arm64")
    for line in calls(apt):
        assert "APT::Architectures=arm64" in line
        for name in ("State", "State::Lists", "State::status", "Cache", "Cache::Archives"):
            assert f"Dir::{name}={cache}/debian/." in line


def test_nothing_is_left_of_a_failure(apt: Path, cache: Path, fake_command: Fake) -> None:
    fake_command("apt-get", "echo no such package; exit 100")
    with pytest.raises(PagehaulError, match=r"(?s)reach the network\?\).*no such package"):
        debian.unpack("widget", "arm64")
    assert list((cache / "debian").iterdir()) == []


def test_without_apt_the_error_says_where_it_goes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(PagehaulError, match=r"unpack that package as .*/debian/widget-arm64"):
        debian.unpack("widget", "arm64")


BOOKWORM = debian.Release(12, "bookworm")


def test_backport_comes_with_what_it_depends_on(apt: Path, cache: Path) -> None:
    files = debian.unpack_backport("widget", BOOKWORM)
    assert files == cache / "debian/widget-bookworm-backports"
    assert sorted(path.name for path in (files / "bin").iterdir()) == ["libwidget", "widget"]
    assert debian.unpack_backport("widget", BOOKWORM) == files
    update, install = calls(apt)
    assert update.endswith(" update")
    assert install.endswith("--no-install-recommends --target-release=bookworm-backports widget")


def test_backport_is_got_by_sources_and_lists_of_its_own(apt: Path, cache: Path) -> None:
    debian.unpack_backport("widget", BOOKWORM)
    for line in calls(apt):
        for name in ("Etc::SourceList", "State", "State::Lists", "Cache", "Cache::Archives"):
            assert f"Dir::{name}={cache}/debian/." in line
        assert "Dir::Etc::SourceParts=/dev/null" in line
        assert "Dir::State::status=/var/lib/dpkg/status" in line
        assert "APT::Architectures" not in line
    signed = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
    for line in apt.with_name("apt-get.sources").read_text().splitlines():
        assert line.startswith(signed) and line.endswith((" bookworm main", "-backports main"))


@pytest.mark.parametrize(
    ("name", "text", "mirror"),
    [
        ("sources.list", "deb http://a.org/debian bookworm main contrib\n", "http://a.org/debian"),
        (
            "sources.list",
            "# deb http://a.org/debian bookworm main\n"
            "deb cdrom:[Debian 12]/debian bookworm main\n"
            "deb-src http://b.org/debian bookworm main\n"
            "deb [arch=amd64] https://c.org/x/debian/ bookworm non-free main\n",
            "https://c.org/x/debian",
        ),
        (
            "sources.list.d/debian.sources",
            "Types: deb\n# a comment\nURIs: http://d.org/debian\n"
            "Suites: bookworm bookworm-updates\nComponents: main\n",
            "http://d.org/debian",
        ),
        (
            "sources.list.d/debian.sources",
            "Enabled: no\nURIs: http://d.org/debian\nSuites: bookworm\nComponents: main\n\n"
            "URIs: http://e.org/debian-security http://e.org/debian\nSuites: bookworm\n"
            "Components: contrib main\n",
            "http://e.org/debian",
        ),
        ("sources.list", "deb http://f.org/other bookworm main\n", "http://deb.debian.org/debian"),
        ("sources.list", "deb http://g.org/debian trixie main\n", "http://deb.debian.org/debian"),
        (
            "sources.list.d/docker.list",
            "deb https://h.org/linux/debian bookworm stable\n",
            "http://deb.debian.org/debian",
        ),
        ("sources.list.d/x.bak", "deb http://i.org/debian bookworm main\n", debian._MIRROR),
        (".none", "", debian._MIRROR),
    ],
)
def test_mirror_is_the_one_that_the_machine_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, mirror: str
) -> None:
    monkeypatch.setattr(debian, "_SOURCES", tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert debian._mirror(BOOKWORM) == mirror


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('PRETTY_NAME="x"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n', BOOKWORM),
        ("ID=debian\nVERSION_CODENAME=forky\n", debian.Release(0, "forky")),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n', None),
        ("ID=debian\n", None),
        (None, None),
    ],
)
def test_release_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    release: debian.Release | None,
) -> None:
    monkeypatch.setattr(debian, "_OS_RELEASE", tmp_path / "os-release")
    if text is not None:
        (tmp_path / "os-release").write_text(text)
    assert debian.release() == release
