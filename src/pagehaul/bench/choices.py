# SPDX-License-Identifier: GPL-2.0-only
"""What makes the kernel ask for help, or leaves the choice to it."""

from collections.abc import Mapping

from pagehaul.bench.cell import PAGE_KB, Shape

# CPUs are asked however little there is to do for them.
FORCED: Mapping[str, str] = {"vm.mt_page_copy": "1"}
# The kernel decides: its defaults, which a machine that is measured need not have.
_DEFAULT_CHUNK_KB = 128
AUTOMATIC: Mapping[str, str] = {
    "vm.mt_page_copy": "2",
    "chunk_kb": str(_DEFAULT_CHUNK_KB),
}

# The kernel copies at most so many folios at a time, and at most a batch.
_COPY_FOLIOS = 64
_BATCH_KB = 2048


def copy_kb(shape: Shape) -> int:
    """Return how much of a shape the kernel copies at a time, in KiB."""
    return min(shape.bytes // 1024, shape.folio_kb * _COPY_FOLIOS, _BATCH_KB)


def forced(shape: Shape, threads: int) -> dict[str, str]:
    """Return the settings that make so many CPUs be asked to help with a shape.

    No more of them are asked than there are chunks, of which there must be enough.
    """
    share_kb = copy_kb(shape) // threads // PAGE_KB * PAGE_KB
    return {**FORCED, "chunk_kb": str(min(_DEFAULT_CHUNK_KB, share_kb))}


def is_forced(settings: Mapping[str, str]) -> bool:
    """Whether these are settings of forced()."""
    return FORCED.items() <= settings.items()
