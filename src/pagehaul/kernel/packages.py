# SPDX-License-Identifier: GPL-2.0-only
"""`build --deb`: the pagehaul kernel as Debian packages, for a machine that does other work."""

import gzip
import os
import shutil
from itertools import chain
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.host import tools
from pagehaul.kernel import tree
from pagehaul.kernel.bases import Base
from pagehaul.kernel.build import CONFIGS, NEW_CONFIG, make, make_words, read_options, take_config
from pagehaul.locks import lock
from pagehaul.paths import cache_dir, log_dir
from pagehaul.ui import Command, run_logged

# What to change in a distribution's configuration: its keys are not in the kernel's source, and the
# debugging information makes the build several times as large. The tests are for guests.
_OPTIONS = (
    *("--set-str", "SYSTEM_TRUSTED_KEYS", ""),
    *("--set-str", "SYSTEM_REVOCATION_KEYS", ""),
    *("--set-str", "BUILD_SALT", ""),
    *("--disable", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"),
    *("--disable", "DEBUG_INFO_DWARF4"),
    *("--disable", "DEBUG_INFO_DWARF5"),
    *("--enable", "DEBUG_INFO_NONE"),
    *("--disable", "MIGRATE_COPY_KUNIT_TEST"),
)
_FRAGMENT = CONFIGS / "machine.config"
_WORDS = {"y": "--enable", "m": "--module"}


def build(config_file: Path | None, base: Base, kernel_source: str | None = None) -> list[Path]:
    """Build packages of the pagehaul kernel, its image and its headers, and return them.

    config_file is the configuration to start from, None for the running kernel's; base and
    kernel_source are as for `build.build`. Raises PagehaulError when there is none, when Pagehaul
    cannot be built with it, and when the build fails.
    """
    config = _base_config(config_file)
    tools.need_for("build")
    tools.need_for("deb")
    with lock("build-deb"):
        where = tree.prepare_variant("pagehaul", base, "deb", source_of=kernel_source)
        log = log_dir() / "build-deb.log"
        log.unlink(missing_ok=True)
        (where / NEW_CONFIG).write_bytes(config)
        env = {"KCONFIG_CONFIG": NEW_CONFIG}
        added = [(_WORDS[value], name) for name, value in read_options(_FRAGMENT).items()]
        for words in (
            ["scripts/config", "--file", NEW_CONFIG, *_OPTIONS, *chain.from_iterable(added)],
            [*make_words(), "olddefconfig"],
        ):
            run_logged(Command(words, where, env), log, title=f"configuring: {words[0]}")
        if read_options(where / NEW_CONFIG).get("MIGRATE_COPY") != "y":
            raise PagehaulError(
                "Kconfig did not keep CONFIG_MIGRATE_COPY: the base configuration lacks something "
                "that it depends on, such as NUMA or COMPACTION"
            )
        take_config(where)
        for stale in where.parent.glob("linux-*"):
            stale.unlink()
        title = "building the packages"
        make(where, ["bindeb-pkg"], log, title=title, variant="pagehaul")
        target = cache_dir() / "deb"
        target.mkdir(exist_ok=True)
        packages = [
            Path(shutil.move(package, target / package.name))
            for kind in ("image", "headers")
            for package in sorted(where.parent.glob(f"linux-{kind}-*.deb"))
        ]
        # Nobody should install the other packages, such as the headers of libc.
        for other in where.parent.glob("linux-*"):
            other.unlink()
        return packages


def _base_config(base: Path | None) -> bytes:
    running = Path("/proc/config.gz")
    path = base or Path(f"/boot/config-{os.uname().release}")
    if path.is_file():
        return path.read_bytes()
    if base is None and running.exists():
        return gzip.decompress(running.read_bytes())
    raise PagehaulError(f"no configuration at {path}; give one with --base-config FILE")
