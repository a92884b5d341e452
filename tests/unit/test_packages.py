# SPDX-License-Identifier: GPL-2.0-only
"""Installable packages, from a kernel whose Makefile only pretends to make them."""

from pathlib import Path

import pytest

from conftest import Content
from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import bases, build, packages

# What bindeb-pkg leaves beside the tree; it packs its configuration, so that the test can see it.
BINDEB = """
bindeb-pkg:
\tcp .config ../linux-image-7.3.99-pagehaul_1_amd64.deb
\ttouch ../linux-headers-7.3.99-pagehaul_1_amd64.deb ../linux-libc-dev_1_amd64.deb
\ttouch ../linux-upstream_1_amd64.changes
"""
# Like the kernel's scripts/config, but for --disable of what is not there.
CONFIG = """#!/bin/bash
file=$2; shift 2
while [ $# -gt 0 ]; do
    sed -i "/CONFIG_$2[ =]/d" "$file"
    case $1 in
    --set-str) echo "CONFIG_$2=\\"$3\\"" >> "$file"; shift ;;
    --module) echo "CONFIG_$2=m" >> "$file" ;;
    --enable) echo "CONFIG_$2=y" >> "$file" ;;
    --disable) echo "# CONFIG_$2 is not set" >> "$file" ;;
    esac
    shift 2
done
"""


@pytest.fixture
def kernel(
    kernel_dir: Path, cache: Path, content: Content, monkeypatch: pytest.MonkeyPatch
) -> Path:
    with (kernel_dir / "Makefile").open("a") as makefile:
        makefile.write(BINDEB)
    (kernel_dir / "scripts/config").write_text(CONFIG)
    (kernel_dir / "scripts/config").chmod(0o755)
    monkeypatch.setattr(tools, "need_for", lambda group: None)
    return kernel_dir


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "config-distribution"
    path.write_text('CONFIG_E1000=m\nCONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/x.pem"\n')
    return path


def test_image_and_headers_come_out(kernel: Path, base: Path, cache: Path) -> None:
    made = packages.build(base, bases.get(), str(kernel))
    assert [path.name.split("_")[0] for path in made] == [
        "linux-image-7.3.99-pagehaul",
        "linux-headers-7.3.99-pagehaul",
    ]
    assert {path.parent for path in made} == {cache / "deb"}
    assert list((cache / "tree").glob("linux-*")) == []


def test_the_base_configuration_is_kept_and_ours_added(kernel: Path, base: Path) -> None:
    options = build.read_options(packages.build(base, bases.get(), str(kernel))[0])
    assert options["E1000"] == "m" and options["MIGRATE_COPY"] == "y"
    assert options["MIGRATE_COPY_KUNIT_TEST"] == "n"
    ours = ("MIGRATE_COPY_DCBM", "MIGRATE_COPY_MTCOPY")
    devices = ("INTEL_IOATDMA", "INTEL_IDXD", "AMD_PTDMA", "AMD_AE4DMA")
    assert {options[name] for name in (*ours, *devices)} == {"m"}
    assert options["SYSTEM_TRUSTED_KEYS"] == '""'


def test_configuration_that_pagehaul_cannot_be_built_with_is_an_error(
    kernel: Path, base: Path
) -> None:
    makefile = kernel / "Makefile"
    makefile.write_text(makefile.read_text().replace("grep -v DROPPED", "grep -v MIGRATE_COPY"))
    with pytest.raises(PagehaulError, match="did not keep CONFIG_MIGRATE_COPY"):
        packages.build(base, bases.get(), str(kernel))


def test_missing_base_configuration_is_an_error(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(PagehaulError, match="--base-config FILE"):
        packages.build(tmp_path / "missing", bases.get(), str(kernel))
