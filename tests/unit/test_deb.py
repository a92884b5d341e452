# SPDX-License-Identifier: GPL-2.0-only
"""The Debian package: its modules are all that its verbs need, and its version is the tool's.

The wheel, which pip and pipx install, has the same modules.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehaul.cli import verbs
from pagehaul.cli.version import VERSION
from pagehaul.paths import REPO

ALONE = [name for name, command in verbs.COMMANDS.items() if command.alone]


def installed() -> Iterator[tuple[Path, str]]:
    """Yield each file that the package has, and the directory where it goes."""
    for line in (REPO / "debian/pagehaul.install").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            pattern, directory = line.split()
            found = list(REPO.glob(pattern))
            assert found, pattern
            yield from ((path, directory) for path in found)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what the package installs."""
    root = tmp_path_factory.mktemp("root")
    for path, directory in installed():
        (root / directory).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / directory)
    return root


def run(root: Path, *words: str) -> str:
    """Run the installed tool, without what the package does not depend on; returns its output."""
    code = (
        "import sys\n"
        "sys.modules.update(shtab=None, pytest=None)\n"
        "from pagehaul.cli.main import main\n"
        "sys.exit(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "usr/share/pagehaul")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", ALONE)
def test_the_package_has_what_its_verbs_need(root: Path, name: str) -> None:
    assert f"usage: pagehaul {name}" in run(root, name, "--help")


def test_page_and_completions_have_only_its_verbs(root: Path) -> None:
    sections = re.findall(r"^\.SS (\w+)$", run(root, "manual"), re.M)
    assert sections == ALONE
    for shell in ("bash", "zsh", "fish"):
        assert "torture" not in run(root, "completion", shell)


def test_nothing_of_kernels_and_guests_is_in_it() -> None:
    rooms = {
        path.relative_to(REPO / "src/pagehaul").parts[0]
        for path, _ in installed()
        if path.is_relative_to(REPO / "src")
    }
    assert not rooms & {"kernel", "guest", "bench", "report", "suites"}


def test_pip_installs_the_same_modules(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=REPO,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        wheels = {name for name in file.namelist() if name.startswith("pagehaul/")}
    source = REPO / "src"
    assert wheels == {
        str(path.relative_to(source)) for path, _ in installed() if path.is_relative_to(source)
    }


def test_its_version_is_the_tools() -> None:
    text = (REPO / "debian/changelog").read_text(encoding="utf-8")
    assert re.match(r"pagehaul \((\S+)\) ", text)[1] == VERSION  # type: ignore[index]


def test_it_depends_on_what_the_tool_declares() -> None:
    control = (REPO / "debian/control").read_text(encoding="utf-8")
    needed = set(re.findall(r"^ +python3-(\w+),?$", control.partition("\nPackage:")[2], re.M))
    declared = re.search(r"^dependencies = \[(.*)\]$", (REPO / "pyproject.toml").read_text(), re.M)
    assert declared is not None
    assert needed == set(re.findall(r'"(\w+)', declared[1]))
