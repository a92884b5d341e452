# SPDX-License-Identifier: GPL-2.0-only
"""Building, with a kernel whose Makefile only pretends: no kernel is compiled here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Content
from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import build
from pagehaul.kernel.arches import ARCHES, ARM64, ARM64_64K, X86_64
from pagehaul.kernel.built import Kernel


@pytest.fixture
def setting(cache: Path, content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of kernel/ and configs/ for the pretended kernel."""
    (tmp_path / "configs").mkdir()
    for name, text in {
        "base": "CONFIG_BASE=y\n# CONFIG_OFF is not set\n",
        "x86_64": "CONFIG_X86=y\n",
        "pagehaul": "CONFIG_OURS=y\n",
        "judge": "CONFIG_JUDGE=y\n",
        "torture": "CONFIG_TORTURE=y\n",
        "debug": "CONFIG_DEBUG=y\n",
        "arm64": "CONFIG_ARM64=y\nCONFIG_SMALL=y\n",
        "arm64-64k": "# CONFIG_SMALL is not set\nCONFIG_LARGE=y\n",
    }.items():
        (tmp_path / f"configs/{name}.config").write_text(f"# a comment\n\n{text}")
    monkeypatch.setattr(build, "CONFIGS", tmp_path / "configs")
    monkeypatch.setattr(tools, "need_for", lambda group: None)
    return tmp_path


def builds(kernel: Kernel) -> int:
    return len((kernel.tree / "builds").read_text().splitlines())


def test_kernel_is_built(setting: Path, kernel_dir: Path, bzimage: Callable[[str], bytes]) -> None:
    kernel = build.build("pagehaul", None, str(kernel_dir))
    assert kernel.release == "7.3.99-test"
    assert kernel.image.read_bytes() == bzimage("7.3.99-test")
    options = build.read_options(kernel.config)
    assert options == {"TINY": "y", "BASE": "y", "OFF": "n", "X86": "y", "OURS": "y"}


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("vanilla", set()),
        ("pagehaul", {"OURS"}),
        ("judge", {"OURS", "JUDGE"}),
        ("torture", {"OURS", "TORTURE"}),
        ("debug", {"OURS", "TORTURE", "DEBUG"}),
    ],
)
def test_variant_has_its_options(
    setting: Path, kernel_dir: Path, variant: str, options: set[str]
) -> None:
    got = build.read_options(build.build(variant, None, str(kernel_dir)).config)
    assert {name for name in got if name in ("OURS", "JUDGE", "TORTURE", "DEBUG")} == options


@pytest.fixture
def cross_compiler(fake_command: Callable[[str, str], Path]) -> None:
    fake_command("aarch64-linux-gnu-gcc", "echo a compiler")


def test_each_architecture_has_its_options_and_tree(
    setting: Path, kernel_dir: Path, cross_compiler: None
) -> None:
    kernels = [build.build("pagehaul", None, str(kernel_dir), arch) for arch in ARCHES.values()]
    assert [kernel.label for kernel in kernels] == [
        "pagehaul",
        "pagehaul-arm64",
        "pagehaul-arm64-64k",
    ]
    assert len({kernel.tree for kernel in kernels}) == len(kernels)
    assert [kernel.release for kernel in kernels[1:]] == ["7.3.99-test-arm64"] * 2
    small, large = (build.read_options(kernel.config) for kernel in kernels[1:])
    assert "X86" not in small and small["OURS"] == "y" and small["ARM64"] == "y"
    assert (small["SMALL"], large["SMALL"], large["LARGE"]) == ("y", "n", "y")


def test_another_architecture_is_cross_compiled(
    setting: Path, kernel_dir: Path, cross_compiler: None
) -> None:
    kernel = build.build("vanilla", None, str(kernel_dir), ARM64)
    assert (kernel.tree / "words").read_text() == (
        "arm64 aarch64-linux-gnu- ccache aarch64-linux-gnu-gcc -vanilla-arm64\n"
    )
    assert not (kernel.tree / "arch/x86").exists()


def test_the_words_of_make_for_this_machine_stay() -> None:
    # Other words would let everything be compiled again.
    assert build.make_words() == ["make", "--no-print-directory", "ARCH=x86_64"]
    assert build.make_command("pagehaul")[-2:] == ["CC=ccache gcc", "LOCALVERSION=-pagehaul"]


def test_only_what_an_architecture_needs_is_installed(
    setting: Path, kernel_dir: Path, cross_compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[str] = []
    monkeypatch.setattr(tools, "need_for", groups.append)
    build.build("vanilla", None, str(kernel_dir))
    assert groups == ["build"]
    build.build("vanilla", None, str(kernel_dir), ARM64_64K)
    assert groups == ["build", "build", "build-arm64"]


def test_nothing_changed_builds_nothing(setting: Path, kernel_dir: Path) -> None:
    first = build.build("pagehaul", None, str(kernel_dir))
    config_time = first.config.stat().st_mtime_ns
    assert build.build("pagehaul", None, str(kernel_dir)) == first
    assert builds(first) == 1
    assert first.config.stat().st_mtime_ns == config_time


@pytest.mark.parametrize("what", ["kernel/new.c", "configs/base.config", "image"])
def test_change_is_built(setting: Path, kernel_dir: Path, what: str) -> None:
    kernel = build.build("pagehaul", None, str(kernel_dir))
    if what == "image":
        kernel.image.unlink()
    else:
        with (setting / what).open("a") as file:
            file.write("CONFIG_MORE=y\n")
    again = build.build("pagehaul", None, str(kernel_dir))
    assert builds(again) == 2


def test_another_compiler_builds_all(
    setting: Path, kernel_dir: Path, fake_command: Callable[[str, str], Path]
) -> None:
    for number in (1, 2):
        fake_command("gcc", f"echo gcc {number}")
        assert builds(build.build("pagehaul", None, str(kernel_dir))) == number


def test_failed_build_is_tried_again(setting: Path, kernel_dir: Path, content: Content) -> None:
    kernel = build.build("pagehaul", None, str(kernel_dir))
    lines = (kernel_dir / "Makefile").read_text().splitlines()
    at = lines.index("bzImage:")
    (content.diffs / "2.diff").write_text(
        f"--- a/Makefile\n+++ b/Makefile\n@@ -{at + 1},4 +{at + 1},5 @@\n {lines[at]}\n"
        f" {lines[at + 1]}\n+\techo the compiler complains; false\n"
        f" {lines[at + 2]}\n {lines[at + 3]}\n"
    )
    for attempt in (2, 3):
        with pytest.raises(PagehaulError, match="the compiler complains"):
            build.build("pagehaul", None, str(kernel_dir))
        assert builds(kernel) == attempt
    (content.diffs / "2.diff").unlink()
    build.build("pagehaul", None, str(kernel_dir))
    assert builds(kernel) == 4


def test_dropped_option_is_an_error(setting: Path, kernel_dir: Path) -> None:
    (setting / "configs/pagehaul.config").write_text("CONFIG_OURS=y\nCONFIG_DROPPED=y\n")
    with pytest.raises(PagehaulError, match="CONFIG_DROPPED=y became n"):
        build.build("pagehaul", None, str(kernel_dir))


@pytest.mark.parametrize(
    ("fragment", "config", "wrong"),
    [
        ("CONFIG_A=y\n", "CONFIG_A=y\n", ""),
        ("CONFIG_A=y\n", "CONFIG_A=m\n", "CONFIG_A=y became m"),
        ("CONFIG_A=64\n", "CONFIG_A=8\n", "CONFIG_A=64 became 8"),
        ("# CONFIG_A is not set\n", "", ""),
        ("# CONFIG_A is not set\n", "# CONFIG_A is not set\n", ""),
        ("# CONFIG_A is not set\n", "CONFIG_A=y\n", "CONFIG_A=n became y"),
        ("CONFIG_A=y\n", "CONFIG_AB=y\n", "CONFIG_A=y became n"),
    ],
)
def test_options_are_checked(tmp_path: Path, fragment: str, config: str, wrong: str) -> None:
    (tmp_path / "fragment").write_text(fragment)
    (tmp_path / "config").write_text(config)
    if not wrong:
        build.check_options(tmp_path / "config", [tmp_path / "fragment"])
        return
    with pytest.raises(PagehaulError, match=wrong):
        build.check_options(tmp_path / "config", [tmp_path / "fragment"])


def test_later_fragment_overrides(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("CONFIG_A=y\nCONFIG_B=y\n")
    (tmp_path / "two").write_text("# CONFIG_A is not set\n")
    assert build.read_options(tmp_path / "one", tmp_path / "two") == {"A": "n", "B": "y"}


def test_line_that_is_no_option_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("CONFIG_A=y\nCONFIG-B=y\n")
    with pytest.raises(PagehaulError, match=r"one:2: not an option: CONFIG-B=y"):
        build.read_options(tmp_path / "one")


def test_the_projects_own_fragments_are_well_formed() -> None:
    for fragment in (build.REPO / "configs").glob("*.config"):
        assert build.read_options(fragment)


def test_image_from_elsewhere(tmp_path: Path, bzimage: Callable[[str], bytes]) -> None:
    (tmp_path / "bzImage").write_bytes(bzimage("6.1.0-9-amd64"))
    assert build.foreign(tmp_path / "bzImage").release == "6.1.0-9-amd64"
    assert build.foreign(tmp_path / "bzImage").arch is X86_64
    (tmp_path / "text").write_text("no kernel")
    for name in ("text", "missing"):
        with pytest.raises(PagehaulError, match=name):
            build.foreign(tmp_path / name)


def test_image_for_arm64_from_elsewhere(
    tmp_path: Path, arm64_image: Callable[[str], bytes]
) -> None:
    image = tmp_path / "Image"
    image.write_bytes(arm64_image("6.1.0-9-arm64"))
    kernel = build.foreign(image)
    assert (kernel.release, kernel.arch) == ("6.1.0-9-arm64", ARM64)
    image.write_bytes(arm64_image("6.1.0-9-arm64")[:0x1000])
    with pytest.raises(PagehaulError, match="does not say which Linux"):
        build.foreign(image)
