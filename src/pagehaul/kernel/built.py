# SPDX-License-Identifier: GPL-2.0-only
"""A kernel that is built, and where its files are."""

from dataclasses import dataclass
from pathlib import Path

from pagehaul.kernel.arches import X86_64, Arch
from pagehaul.kernel.bases import Base

# Where the build leaves our modules.
_MODULES = {
    "dcbm": "mm/migrate_copy/dcbm.ko",
    "mtcopy": "mm/migrate_copy/mtcopy.ko",
    "softdma": "drivers/dma/softdma.ko",
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel: its variant, tree, image, configuration, `uname -r`, architecture and base.

    The base is that of the series, None for a kernel that was built elsewhere.
    """

    variant: str
    tree: Path
    image: Path
    config: Path
    release: str
    arch: Arch = X86_64
    base: Base | None = None

    @property
    def label(self) -> str:
        """What tells it from the kernels of other variants, architectures and bases."""
        return self.arch.label(self.variant) + (self.base.suffix if self.base else "")


def module(kernel: Kernel, name: str) -> Path:
    """Return the file of one of our modules: "dcbm", "mtcopy" or "softdma"."""
    return kernel.tree / _MODULES[name]


def module_options(kernel: Kernel) -> list[str]:
    """Return the options by which test programs get our modules."""
    options = {"-d": "dcbm", "-m": "mtcopy", "-f": "softdma"}
    return [
        word for option, name in options.items() for word in (option, str(module(kernel, name)))
    ]


def modules(kernel: Kernel) -> list[Path]:
    """Return the files of our modules; none of a kernel that is not ours."""
    return [path for path in (module(kernel, name) for name in _MODULES) if path.exists()]
