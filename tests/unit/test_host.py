# SPDX-License-Identifier: GPL-2.0-only
"""Installing what is missing, with pretended packages and a pretended apt-get."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.host import tools

Fake = Callable[[str, str], Path]


@pytest.fixture
def package(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose presence says that the package "widget" is installed."""
    monkeypatch.setitem(tools._PROBES, "widget", str(tmp_path / "widget.h"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "widget.h"


def test_what_is_there_is_left_alone(package: Path, fake_command: Fake) -> None:
    fake_command("apt-get", "exit 1")
    package.touch()
    tools.require("widget")


def test_missing_package_is_installed_and_named(
    package: Path, fake_command: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_command("apt-get", f'echo "$@" >> {package}.calls; touch {package}')
    tools.require("widget")
    calls = Path(f"{package}.calls").read_text().splitlines()
    assert len(calls) == 1 and calls[0].endswith("--no-install-recommends widget")
    assert "widget" in capsys.readouterr().err


def test_lists_are_updated_when_the_package_is_not_found(package: Path, fake_command: Fake) -> None:
    fake_command(
        "apt-get",
        f'case "$*" in *update) touch {package}.updated ;;\n'
        f"*) [ -e {package}.updated ] || exit 100; touch {package} ;; esac",
    )
    tools.require("widget")
    assert package.exists()


def test_failure_names_package_and_log(package: Path, fake_command: Fake, cache: Path) -> None:
    fake_command("apt-get", "echo no such package; exit 100")
    with pytest.raises(PagehaulError, match=r"could not install widget; .*apt\.log says why"):
        tools.require("widget")
    assert "no such package" in (cache / "logs/apt.log").read_text()


def test_installed_but_not_to_be_found_is_an_error(package: Path, fake_command: Fake) -> None:
    fake_command("apt-get", "exit 0")
    with pytest.raises(PagehaulError, match="not to be found: widget"):
        tools.require("widget")


def test_without_apt_the_error_names_all(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(tools._PROBES, "gadget", str(tmp_path / "gadget.h"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(PagehaulError, match="no apt: widget gadget"):
        tools.require("widget", "gadget")


@pytest.mark.parametrize(
    ("os_release", "told"),
    [
        ("ID=fedora\nVERSION_ID=43\n", "dnf install widget elfutils-libelf-devel openssl-devel"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install widget elfutils-libelf-devel"),
        ("ID=arch\n", "pacman -S widget libelf openssl"),
        ("ID=manjaro\nID_LIKE=arch\n", "pacman -S widget libelf openssl"),
        ("ID=void\n", r"no apt: widget libelf-dev libssl-dev \(names of Debian packages\)"),
        ("", r"no apt: widget libelf-dev libssl-dev"),
    ],
)
def test_other_systems_have_names_of_their_own(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, os_release: str, told: str
) -> None:
    (tmp_path / "os-release").write_text(os_release)
    monkeypatch.setattr(tools, "_OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for name in ("libelf-dev", "libssl-dev"):
        monkeypatch.setitem(tools._PROBES, name, str(tmp_path / "none.h"))
    with pytest.raises(PagehaulError, match=told):
        tools.require("widget", "libelf-dev", "libssl-dev")


def test_without_dpkg_a_package_has_a_command_of_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake_command: Fake
) -> None:
    monkeypatch.setenv("PATH", str(fake_command("gizmo", "").parent))
    tools.require("gizmo")
    with pytest.raises(PagehaulError, match="gadget"):
        tools.require("gizmo", "gadget")


@pytest.mark.parametrize("system", tools._ELSEWHERE)
def test_only_known_packages_are_renamed(system: str) -> None:
    _, renamed = tools._ELSEWHERE[system]
    assert renamed.keys() <= tools._PROBES.keys()
    assert all(name != other for name, other in renamed.items())
    # Their own names end otherwise, there.
    of_groups = {name for group in ("build", "check", "unit") for name in tools._GROUPS[group]}
    left = {name for name in of_groups - renamed.keys() if name.startswith("lib") or "-dev" in name}
    assert left == set()


@pytest.mark.parametrize("where", ["lib", "lib/x86_64-linux-gnu", "lib64"])
def test_libraries_are_found_where_each_system_has_them(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    seen = f"/usr/{where}/libc.a"
    monkeypatch.setattr(
        tools.glob, "glob", lambda path, recursive: [seen] if Path(seen).match(path) else []
    )
    assert tools._present("libc6-dev")
    assert not tools._present("libelf-dev")


def test_without_root_and_sudo_the_error_says_what_to_run(
    package: Path, monkeypatch: pytest.MonkeyPatch, fake_command: Fake
) -> None:
    fake_command("apt-get", "exit 1")
    fake_command("dpkg-query", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "sudo" else name)
    with pytest.raises(PagehaulError, match="as root, run: apt-get install widget"):
        tools.require("widget")


def test_without_root_sudo_is_used(
    package: Path, monkeypatch: pytest.MonkeyPatch, fake_command: Fake
) -> None:
    fake_command("sudo", f'[ "$1" = -v ] || {{ echo "$1" > {package}.sudo; exec "$@"; }}')
    fake_command("apt-get", f"touch {package}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tools.require("widget")
    assert Path(f"{package}.sudo").exists()


@pytest.mark.parametrize("group", tools._GROUPS)
def test_every_package_of_a_group_has_a_probe(group: str) -> None:
    assert set(tools._GROUPS[group]) <= tools._PROBES.keys()
