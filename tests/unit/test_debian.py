# SPDX-License-Identifier: GPL-2.0-only
"""Packages for other architectures, with a pretended apt-get and dpkg-deb."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pagehaul import debian
from pagehaul.errors import PagehaulError

Fake = Callable[[str, str], Path]

APT = """\
echo "$@" >> "$0.calls"
case "$*" in *download*) touch widget_1_arm64.deb ;; esac
"""


@pytest.fixture
def apt(cache: Path, fake_command: Fake) -> Path:
    fake_command("dpkg-deb", 'mkdir -p "$3/bin"; echo "$2" > "$3/bin/widget"')
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
    with pytest.raises(PagehaulError, match="no such package"):
        debian.unpack("widget", "arm64")
    assert list((cache / "debian").iterdir()) == []


def test_without_apt_the_error_says_where_it_goes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(PagehaulError, match=r"unpack that package as .*/debian/widget-arm64"):
        debian.unpack("widget", "arm64")
