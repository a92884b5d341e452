# SPDX-License-Identifier: GPL-2.0-only
"""Finding a QEMU that is new enough, with pretended ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.guest import qemu
from pagehaul.host import debian, tools

Fake = Callable[[str, str], Path]

# The fixture for all tests has another one in its place.
ENSURE = qemu.ensure

BOOKWORM = debian.Release(12, "bookworm")
NEW = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)"
OLD = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"


@pytest.fixture(autouse=True)
def nothing(
    cache: Path, tmp_path: Path, fake_command: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave no QEMU in PATH, and a machine that is no Debian."""
    monkeypatch.setenv("PATH", f"{tmp_path}/fake-bin:/usr/bin:/bin")
    which = qemu.shutil.which
    monkeypatch.setattr(
        qemu.shutil, "which", lambda name: which(name, path=str(tmp_path / "fake-bin"))
    )
    monkeypatch.setattr(qemu, "ensure", ENSURE)
    monkeypatch.setattr(qemu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(debian, "release", lambda: None)
    monkeypatch.setattr(tools, "require", lambda *packages: None)


def on(monkeypatch: pytest.MonkeyPatch, release: debian.Release) -> None:
    monkeypatch.setattr(debian, "release", lambda: release)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (f"{OLD}\nCopyright (c) 2003-2022 Fabrice Bellard\n", (7, 2)),
        (NEW, (10, 0)),
        ("QEMU emulator version 10.1.50 (v10.1.0-1-gabcdef)\n", (10, 1)),
        ("a warning\nQEMU emulator version 11.0.0\n", (11, 0)),
        ("QEMU emulator version ten", None),
        ("some QEMU emulator version 9.1", None),
        ("", None),
    ],
)
def test_version_is_read(text: str, version: tuple[int, int] | None) -> None:
    assert qemu.version_of(text) == version


def test_new_one_in_the_path_is_taken_as_it_is(fake_command: Fake) -> None:
    binary = fake_command(qemu.COMMAND, f'echo "{NEW}"')
    found = qemu.simulator()
    assert found == qemu.Qemu(binary, (10, 0))
    assert found.environment() == {} and found.options() == []


def test_old_one_where_no_newer_one_can_be_had_is_one_line(fake_command: Fake) -> None:
    binary = fake_command(qemu.COMMAND, f'echo "{OLD}"')
    with pytest.raises(PagehaulError) as error:
        qemu.simulator()
    assert f"need QEMU 10.0 or newer, and {binary} is 7.2; install" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("release", [None, BOOKWORM])
def test_old_one_will_do_for_kvm(
    fake_command: Fake, monkeypatch: pytest.MonkeyPatch, release: debian.Release | None
) -> None:
    monkeypatch.setattr(debian, "release", lambda: release)
    monkeypatch.setattr(debian, "unpack_backport", lambda *_: pytest.fail("fetched one"))
    binary = fake_command(qemu.COMMAND, f'echo "{OLD}"')
    assert qemu.ensure(oldest=qemu.ANY) == qemu.Qemu(binary, (7, 2))


def test_each_architecture_has_a_package(
    fake_command: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "qemu-system-aarch64"
    fake_command(qemu.COMMAND, f'echo "{NEW}"')
    asked: list[str] = []

    def install(*packages: str) -> None:
        asked.extend(packages)
        fake_command(command, f'echo "{NEW}"')

    monkeypatch.setattr(tools, "require", install)
    assert qemu.ensure(command).binary.name == command
    assert asked == ["qemu-system-arm"]


def test_missing_one_is_installed(fake_command: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, debian.Release(13, "trixie"))
    asked: list[str] = []

    def install(*packages: str) -> None:
        asked.extend(packages)
        fake_command(qemu.COMMAND, f'echo "{NEW}"')

    monkeypatch.setattr(tools, "require", install)
    assert qemu.simulator().version == (10, 0)
    assert asked == ["qemu-system-x86"]


@pytest.mark.parametrize(("printed", "have"), [(f"{OLD}", "is 7.2"), ("none", "there is none")])
def test_installed_one_that_will_not_do_is_an_error(
    fake_command: Fake, monkeypatch: pytest.MonkeyPatch, printed: str, have: str
) -> None:
    install = lambda *packages: fake_command(qemu.COMMAND, f'echo "{printed}"')  # noqa: E731
    monkeypatch.setattr(tools, "require", install)
    with pytest.raises(PagehaulError, match=have):
        qemu.simulator()


def test_other_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu.platform, "machine", lambda: "aarch64")
    with pytest.raises(PagehaulError, match="needs an x86-64 machine; this is aarch64"):
        qemu.simulator()


def files(directory: Path, script: str) -> Path:
    """Make the files of a QEMU that is a script."""
    for name in ("usr/bin", "usr/lib/x86_64-linux-gnu/qemu", "usr/share/qemu", "usr/share/seabios"):
        (directory / name).mkdir(parents=True)
    (directory / "usr/lib/x86_64-linux-gnu/libfdt.so.1").touch()
    binary = directory / "usr/bin" / qemu.COMMAND
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    return directory


@pytest.mark.parametrize("installed", [True, False])
def test_on_debian_12_it_is_the_backport(
    installed: bool, fake_command: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, BOOKWORM)
    if installed:
        fake_command(qemu.COMMAND, f'echo "{OLD}"')
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    script = f'[ "$LD_LIBRARY_PATH" = "{tmp_path}/deb/usr/lib/x86_64-linux-gnu:/before" ] || exit 1'
    root = files(tmp_path / "deb", f'{script}; echo "{NEW}"')
    monkeypatch.setattr(debian, "unpack_backport", lambda package, of: root)
    found = qemu.simulator()
    assert found.binary == root / "usr/bin" / qemu.COMMAND and found.version == (10, 0)
    assert found.libraries == (root / "usr/lib/x86_64-linux-gnu",)
    wanted = ["-L", f"{root}/usr/share/qemu", "-L", f"{root}/usr/share/seabios"]
    assert found.options()[:4] == wanted
    libraries = f"LD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu:/before"
    # Those of the installed one are no use to it.
    modules = f"QEMU_MODULE_DIR={root}/usr/lib/x86_64-linux-gnu/qemu"
    beginning = f"env {libraries} {modules} 'A=b c' {found.binary} -L "
    assert found.words({"A": "b c"}).startswith(beginning)


def test_backport_whose_libraries_went_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, BOOKWORM)
    made: list[Path] = []

    def fetch(package: str, of: debian.Release) -> Path:
        assert package == "qemu-system-x86" and of is BOOKWORM
        assert not any(path.exists() for path in made)
        made.append(files(tmp_path / f"deb{len(made)}", f'echo "{NEW}"' if made else "exit 127"))
        return made[-1]

    monkeypatch.setattr(debian, "unpack_backport", fetch)
    assert qemu.simulator().binary.is_relative_to(tmp_path / "deb1")


@pytest.mark.parametrize(
    ("script", "what"), [("exit 127", "does not run"), (f'echo "{OLD}"', "is 7.2")]
)
def test_backport_that_will_not_do_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str
) -> None:
    on(monkeypatch, BOOKWORM)
    monkeypatch.setattr(debian, "unpack_backport", lambda *_: files(tmp_path / "deb", script))
    with pytest.raises(PagehaulError, match=f"QEMU of bookworm-backports {what}"):
        qemu.simulator()
    assert os.listdir(tmp_path / "deb")
