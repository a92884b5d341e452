# SPDX-License-Identifier: GPL-2.0-only
"""Kernels from tinyconfig and the fragments in configs/."""

import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import facts, tools
from pagehaul.kernel import bases, compose, series, tree
from pagehaul.kernel.arches import ARM64, X86_64, Arch
from pagehaul.kernel.bases import Base
from pagehaul.kernel.built import Kernel
from pagehaul.locks import lock
from pagehaul.paths import REPO, cache_dir, log_dir, read_record
from pagehaul.ui import Command, Step, run_logged

# Kernels that are only measured in virtual time: they build in a third of the time.
BENCH_VANILLA, BENCH_PAGEHAUL = "bench-vanilla", "bench-pagehaul"
# And those that have only the parts of the series up to one.
BENCH_PARTS = tuple(f"bench-{part}" for part in series.UP_TO)

VARIANTS = (
    "vanilla",
    "pagehaul",
    BENCH_VANILLA,
    BENCH_PAGEHAUL,
    *BENCH_PARTS,
    "judge",
    "torture",
    "debug",
    "kcsan",
    "pcp-compound",
    "debug-pcp-compound",
)

# Those of our kernel that look for mistakes of their own. They are slow, and need more memory.
DEBUG_VARIANTS = ("debug", "kcsan", "debug-pcp-compound")
# Those of them with debug.config: they look for mistakes in memory, locking and DMA, and for leaks.
CHECKING_VARIANTS = ("debug", "debug-pcp-compound")

CONFIGS = REPO / "configs"
# What a variant has after "base" and what its architecture needs.
_OURS = ("tests", "pagehaul", "constants", "engines", "kunit")
_FRAGMENTS: dict[str, tuple[str, ...]] = {
    "vanilla": ("tests",),
    "pagehaul": _OURS,
    BENCH_VANILLA: ("virtual",),
    BENCH_PAGEHAUL: ("virtual", "pagehaul", "constants"),
    **{name: ("virtual", "pagehaul") for name in BENCH_PARTS},
    # It has nothing that can be configured.
    BENCH_PARTS[0]: ("virtual",),
    "judge": (*_OURS, "judge"),
    "torture": (*_OURS, "torture"),
    "debug": (*_OURS, "torture", "debug"),
    "kcsan": (*_OURS, "torture", "kcsan"),
    "pcp-compound": (*_OURS, "pcp-compound"),
    "debug-pcp-compound": (*_OURS, "torture", "debug", "pcp-compound"),
}
# The configuration while it is made; the real one is replaced only when it came out different, for
# `make` looks at its time.
NEW_CONFIG = ".config.pagehaul"

# Warnings of what stands in the text of a macro.
_OF_MACROS = ("[-Waddress]", "[-Wtautological-compare]")


def build(
    variant: str,
    base: Base | None = None,
    kernel_source: str | None = None,
    arch: Arch = X86_64,
) -> Kernel:
    """Return the kernel `variant`, built if anything that goes into it has changed.

    base is the kernel that it is for, None for the default one; kernel_source is as for
    `source.ensure`. Raises PagehaulError, with the end of the log, when it does not build, and when
    an option of a fragment is not in the resulting configuration.
    """
    if variant not in VARIANTS:
        raise PagehaulError(f"unknown variant {variant!r}: use one of {', '.join(VARIANTS)}")
    for group in arch.build:
        tools.need_for(group)
    base = base or bases.get()
    fragments = fragments_of(variant, base, arch)
    label = arch.label(variant) + base.suffix
    with lock(f"build-{label}"):
        where = _prepare(variant, base, arch, kernel_source)
        image = where / arch.image
        inputs = _inputs(where, fragments, arch)
        record = read_record(_record_file(where))
        if record.get("inputs") != inputs or not image.exists():
            _record_file(where).unlink(missing_ok=True)
            log = log_dir() / f"build-{label}.log"
            log.unlink(missing_ok=True)
            configure(where, fragments, arch, log)
            targets = [arch.target, *(["modules"] if _has_modules(where / ".config") else [])]
            title = f"building the {label} kernel"
            make(where, targets, log, title=title, variant=variant, arch=arch)
            record = {"inputs": inputs, "release": release_of(image)}
            _record_file(where).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return Kernel(variant, where, image, where / ".config", str(record["release"]), arch, base)


def configured(variant: str, base: Base) -> Path:
    """Return the tree of a variant of x86, configured: single objects can be made in it.

    That is much sooner done than a kernel is built. Raises PagehaulError as build().
    """
    label = f"{variant}{base.suffix}"
    with lock(f"build-{label}"):
        where = _prepare(variant, base, X86_64, None)
        fragments = fragments_of(variant, base, X86_64)
        if read_record(_record_file(where)).get("inputs") != _inputs(where, fragments, X86_64):
            log = log_dir() / f"configure-{label}.log"
            log.unlink(missing_ok=True)
            configure(where, fragments, X86_64, log)
    return where


def fragments_of(variant: str, base: Base, arch: Arch) -> list[Path]:
    """Return the fragments of the configuration of a variant, those of the base after ours."""
    names = ["base", *arch.fragments]
    for name in _FRAGMENTS[variant]:
        names += [name, f"{name}-{arch.name}"]
    return [
        path
        for name in names
        for path in (CONFIGS / f"{name}.config", base.fragment(name))
        if path.exists()
    ]


def _prepare(variant: str, base: Base, arch: Arch, kernel_source: str | None) -> Path:
    """Return the tree of `variant`; a new one starts from vanilla's, where that has been built."""
    small = variant in (BENCH_VANILLA, BENCH_PAGEHAUL, *BENCH_PARTS)
    label, vanilla = arch.label(variant), arch.label(BENCH_VANILLA if small else "vanilla")
    if label == vanilla:
        return tree.prepare_variant(variant, base, label, source_of=kernel_source)
    with lock(f"build-{vanilla}{base.suffix}"):
        origin = tree.tree_dir() / f"{vanilla}{base.suffix}"
        built = origin if _record_file(origin).exists() else None
        if variant in BENCH_PARTS:
            return compose.prepare_up_to(
                variant.removeprefix("bench-"), base, label, source_of=kernel_source, built=built
            )
        return tree.prepare_variant(variant, base, label, source_of=kernel_source, built=built)


def foreign(image: Path) -> Kernel:
    """Return the kernel of a bootable image that was built elsewhere."""
    image = image.absolute()
    config = image.parent / ".config"
    release, arch = release_of(image), ARM64 if _is_arm64(image) else X86_64
    return Kernel("foreign", image.parent, image, config, release, arch)


def _record_file(where: Path) -> Path:
    return where.with_name(f"{where.name}.built.json")


def _inputs(where: Path, fragments: Sequence[Path], arch: Arch) -> str:
    """Hash of everything that decides what the build gives."""
    compiler = subprocess.run(
        [f"{arch.cross}gcc", "--version"], capture_output=True, text=True, check=True
    )
    parts = [arch.name, tree.digest(where), compiler.stdout]
    parts += [fragment.read_text(encoding="utf-8") for fragment in fragments]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def configure(where: Path, fragments: Sequence[Path], arch: Arch, log: Path) -> None:
    """Configure a tree by tinyconfig and fragments; PagehaulError for an option that got lost."""
    env = {"KCONFIG_CONFIG": NEW_CONFIG}

    def merge(command: Sequence[str | Path]) -> None:
        title = f"configuring: {Path(command[0]).name}"
        run_logged(Command(command, where, env), log, title=title)

    (where / NEW_CONFIG).unlink(missing_ok=True)
    merge([*make_words(arch), "tinyconfig"])
    merge(["scripts/kconfig/merge_config.sh", "-m", NEW_CONFIG, *fragments])
    merge([*make_words(arch), "olddefconfig"])
    check_options(where / NEW_CONFIG, fragments)
    take_config(where)


def take_config(where: Path) -> None:
    """Make the new configuration of the tree `where` the one that it is built with."""
    new, old = where / NEW_CONFIG, where / ".config"
    if not old.exists() or old.read_bytes() != new.read_bytes():
        new.replace(old)


def read_options(*files: Path) -> dict[str, str]:
    """Options of configuration files, by name without CONFIG_; "n" for one that is not set.

    A later file overrides an earlier one. Raises PagehaulError for a line that is no option.
    """
    options: dict[str, str] = {}
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := re.fullmatch(r"CONFIG_(\w+)=(.*)", line.strip()):
                options[match[1]] = match[2]
            elif match := re.fullmatch(r"# CONFIG_(\w+) is not set", line.strip()):
                options[match[1]] = "n"
            elif line.strip() and not line.startswith("#"):
                raise PagehaulError(f"{file}:{number}: not an option: {line.strip()}")
    return options


def check_options(config: Path, fragments: Sequence[Path]) -> None:
    """Raise PagehaulError unless every option of `fragments` is in `config` as they ask."""
    wanted, got = read_options(*fragments), read_options(config)
    wrong = [
        f"CONFIG_{name}={value} became {got.get(name, 'n')}"
        for name, value in wanted.items()
        if got.get(name, "n") != value
    ]
    if wrong:
        names = ", ".join(fragment.name for fragment in fragments)
        raise PagehaulError(
            f"options of {names} that Kconfig did not keep: {'; '.join(wrong)}; "
            "see what they depend on, or whether their names have changed"
        )


def _has_modules(config: Path) -> bool:
    return "m" in read_options(config).values()


def make(
    where: Path,
    targets: Sequence[str],
    log: Path,
    *,
    title: str,
    variant: str,
    arch: Arch = X86_64,
) -> None:
    """Run make in the tree `where`, with ccache: another tree finds the objects of this one.

    Raises PagehaulError, with the end of the log, when it fails.
    """
    objects = 0

    def count(line: str, current: Step) -> None:
        nonlocal objects
        if re.match(r"  (CC|AS|HOSTCC|LD|AR)\b", line):
            objects += 1
            current.detail(f"{objects} objects")

    words = [*make_command(variant, arch), *targets]
    command = Command(words, where, make_environment(where))
    run_logged(command, log, title=title, on_line=count)


def warned(log: Path) -> str:
    """Return the compiler's first warning in the log of a build, "" without any.

    It leaves out two kinds, which the compiler gives of macros too where it no longer sees that
    they are some: it compiles what has been preprocessed, see CCACHE_NOCPP2.
    """
    text = log.read_text(encoding="utf-8")
    found = re.findall(r"^.*warning:.*$", text, re.MULTILINE)
    warnings = [line for line in found if not line.endswith(_OF_MACROS)]
    return f"{warnings[0]} (and {len(warnings) - 1} more, see {log})" if warnings else ""


def make_words(arch: Arch = X86_64) -> list[str]:
    """Return the words of `make` that choose an architecture and the tools for it."""
    # With the architecture said outright, tinyconfig's defaults are those of a 64-bit kernel.
    words = ["make", "--no-print-directory", f"ARCH={arch.kernel}"]
    return [*words, f"CROSS_COMPILE={arch.cross}"] if arch.cross else words


def make_command(variant: str, arch: Arch = X86_64) -> list[str]:
    """Return the words of `make` for a tree of `variant`: other words make it compile all."""
    jobs = f"-j{facts.cpus()}"
    compiler = f"CC=ccache {arch.cross}gcc"
    return [*make_words(arch), jobs, compiler, f"LOCALVERSION=-{arch.label(variant)}"]


def make_environment(where: Path) -> dict[str, str]:
    """Return what `make_command` needs in its environment in the tree `where`."""
    return {
        # Objects must not depend on where the tree lies, nor on the day.
        "CCACHE_DIR": str(cache_dir() / "ccache"),
        "CCACHE_BASEDIR": str(where),
        "CCACHE_NOHASHDIR": "1",
        # Compile what has been preprocessed to look for it: half of the time goes into headers.
        "CCACHE_NOCPP2": "1",
        "CCACHE_MAXSIZE": "10G",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan 1 00:00:00 UTC 1970",
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_USER": "pagehaul",
        "KBUILD_BUILD_HOST": "pagehaul",
    }


def _is_arm64(image: Path) -> bool:
    """Whether an image has the header of Documentation/arch/arm64/booting.rst."""
    try:
        with image.open("rb") as file:
            return file.read(0x40)[0x38:0x3C] == b"ARM\x64"
    except OSError:
        return False


def release_of(image: Path) -> str:
    """`uname -r` of a kernel's image.

    A bzImage has it in its header (Documentation/arch/x86/boot.rst: kernel_version), an Image of
    arm64, which is not compressed, in the line that it prints when it boots.
    """
    try:
        if _is_arm64(image):
            banner = re.search(rb"Linux version (\S+) \(", image.read_bytes())
            if banner is None:
                raise PagehaulError(f"{image} does not say which Linux it is")
            return banner[1].decode()
        with image.open("rb") as file:
            header = file.read(0x8000)
        if header[0x202:0x206] != b"HdrS":
            raise PagehaulError(f"{image} is not a bootable kernel image for x86 or arm64")
        start = struct.unpack_from("<H", header, 0x20E)[0] + 0x200
        text = header[start : header.index(b"\0", start)].decode()
    except (OSError, struct.error, ValueError) as error:
        raise PagehaulError(f"cannot read the kernel image {image}: {error}") from error
    return text.split()[0]
