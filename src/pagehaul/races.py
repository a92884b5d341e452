# SPDX-License-Identifier: GPL-2.0-only
"""The data races that KCSAN finds: in our code they are errors, in that of others they are told."""

import re
import subprocess
from collections import Counter
from pathlib import Path

from pagehaul.build import Kernel
from pagehaul.errors import PagehaulError

# The variants that look for them.
VARIANTS = ("kcsan",)

# What is compiled from our sources, and what our patches change most.
_OURS = ("mm/migrate_copy/*.o", "mm/migrate.o", "drivers/dma/softdma.o")

# Between lines of mm/migrate.c that no patch of ours changes and lines elsewhere: told, no error.
# folio_migrate_flags() reads the node out of folio->flags with a plain load, while who waits for
# the migration sets PG_waiters there. The bits of the node never change.
_UNCHANGED = ("folio_migrate_flags / migration_entry_wait_on_locked",)

_REPORT = re.compile(r"BUG: KCSAN: (.*)")


def functions(kernel: Kernel) -> set[str]:
    """Return the names of our functions in a kernel, without what the compiler adds to them."""
    objects = sorted(path for pattern in _OURS for path in kernel.tree.glob(pattern))
    if not objects:
        raise PagehaulError(f"no object files of ours in {kernel.tree}; build the kernel again")
    listed = subprocess.run(
        ["nm", "--defined-only", "--format=posix", *map(str, objects)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split() for line in listed.stdout.splitlines())
    return {words[0].partition(".")[0] for words in lines if words[1:2] in (["t"], ["T"])}


def allowed(kernel: Kernel) -> tuple[str, ...]:
    """Return patterns of the reports that are no errors of ours, for `vm.run`."""
    if kernel.variant not in VARIANTS:
        return ()
    names = "|".join(map(re.escape, sorted(functions(kernel))))
    unchanged = "|".join(map(re.escape, _UNCHANGED))
    return (
        rf"^BUG: KCSAN: .*? in (?!.*(?<![\w.])(?:{names})(?!\w))",
        rf"^BUG: KCSAN: data-race in (?:{unchanged})\s*$",
    )


def told(kernel: Kernel, log: Path) -> Counter[str]:
    """Return what was reported in a console's log, and how often, of a kernel that looks for it."""
    if kernel.variant not in VARIANTS or not log.exists():
        return Counter()
    text = log.read_text(encoding="utf-8", errors="replace")
    return Counter(found[1].strip() for found in _REPORT.finditer(text))
