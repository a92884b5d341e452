# SPDX-License-Identifier: GPL-2.0-only
"""The architectures that kernels are built for, each with the size of its base pages."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Arch:
    """An architecture, and where it has several a size of base pages.

    name is what the user says. kernel is ARCH for the kernel's make, image what it is booted from,
    in its tree. fragments are those of its configuration, by their names in configs/. cross is the
    prefix of the tools that compile for it, empty for this machine's own. build and guest are the
    groups of packages, see host/tools.py, without which nothing is built or booted. memory_mb is
    what a guest has unless somebody says otherwise, in MiB.
    """

    name: str
    kernel: str
    image: str
    fragments: tuple[str, ...]
    cross: str = ""
    build: tuple[str, ...] = ("build",)
    guest: tuple[str, ...] = ()
    memory_mb: int = 3072

    @property
    def target(self) -> str:
        """What the kernel's make makes the image by."""
        return Path(self.image).name

    def label(self, variant: str) -> str:
        """Return what tells a variant's tree, release and logs from those of other architectures.

        The variant alone for x86-64, for which everything is built that does not say otherwise.
        """
        return f"{variant}-{self.name}" if self.cross else variant


X86_64 = Arch(
    name="x86_64",
    kernel="x86_64",
    image="arch/x86/boot/bzImage",
    fragments=("x86_64",),
)

ARM64 = Arch(
    name="arm64",
    kernel="arm64",
    image="arch/arm64/boot/Image",
    fragments=("arm64",),
    cross="aarch64-linux-gnu-",
    build=("build", "build-arm64"),
    guest=("guest-arm64",),
    memory_mb=2048,
)

ARM64_64K = Arch(
    name="arm64-64k",
    kernel=ARM64.kernel,
    image=ARM64.image,
    fragments=("arm64", "arm64-64k"),
    cross=ARM64.cross,
    build=ARM64.build,
    guest=ARM64.guest,
    memory_mb=ARM64.memory_mb,
)

ARCHES = {arch.name: arch for arch in (X86_64, ARM64, ARM64_64K)}
