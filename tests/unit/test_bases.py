# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that the series is for."""

from pathlib import Path

import pytest

from pagehaul.errors import PagehaulError
from pagehaul.kernel import bases, build
from pagehaul.kernel.arches import ARCHES

GOOD = """\
package = "linux-source-9.1"
tarball = "/usr/src/linux-source-9.1.tar.xz"
kernel_org = "9.1.7"
"""


def base_of(tmp_path: Path, text: str) -> bases.Base:
    directory = tmp_path / "9.1"
    directory.mkdir()
    (directory / "base.toml").write_text(text)
    return bases.read(directory)


def test_the_project_has_a_default_base_and_another() -> None:
    assert bases.names()[0] == bases.DEFAULT
    assert "6.12" in bases.names()
    for name in bases.names():
        base = bases.get(name)
        assert base.name == name and base.package == f"linux-source-{name}"
    assert bases.get().suffix == ""
    assert bases.get("6.12").suffix == "-6.12"


def test_a_base_is_what_its_directory_says(tmp_path: Path) -> None:
    base = base_of(tmp_path, GOOD)
    assert (base.package, base.kernel_org) == ("linux-source-9.1", "9.1.7")
    assert base.tarball == Path("/usr/src/linux-source-9.1.tar.xz")
    assert base.backport_of is None
    assert base.diff("x") == tmp_path / "9.1/patches/x.diff"


def test_a_base_may_be_in_backports(tmp_path: Path) -> None:
    base = base_of(tmp_path, f'{GOOD}backport_of = {{ number = 13, codename = "trixie" }}\n')
    assert base.backport_of is not None
    assert (base.backport_of.number, base.backport_of.codename) == (13, "trixie")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (GOOD.replace("package", "packages"), "packages is not known"),
        (GOOD.replace('"linux-source-9.1"', "7"), "package is missing, or is not a string"),
        (GOOD.replace("9.1.7", "9.2.7"), "9.2.7 is not a version of 9.1"),
        (f"{GOOD}backport_of = {{ number = 13 }}\n", "needs a number and a codename"),
        ("package =", "base.toml"),
    ],
)
def test_a_wrong_description_is_an_error(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(PagehaulError, match=what):
        base_of(tmp_path, text)


def test_an_unknown_base_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match=r"no base 2\.4: use one of 7\.3, 6\.12"):
        bases.read(tmp_path / "2.4")


def test_kernel_org_has_a_directory_for_each_major_number() -> None:
    assert bases.kernel_org("7.3.4").endswith("/v7.x/linux-7.3.4.tar.xz")
    assert bases.kernel_org("6.12.57").endswith("/v6.x/linux-6.12.57.tar.xz")


def test_options_of_a_base_come_after_those_of_all(tmp_path: Path) -> None:
    base = base_of(tmp_path, GOOD)
    (tmp_path / "9.1/configs").mkdir()
    base.fragment("pagehaul").write_text("")
    found = build.fragments_of("judge", base, ARCHES["x86_64"])
    assert [path.stem for path in found] == [
        "base",
        "x86_64",
        "tests",
        "tests-x86_64",
        *("pagehaul", "pagehaul"),
        *("constants", "engines", "kunit", "judge"),
    ]
    assert found[5] == base.fragment("pagehaul")
