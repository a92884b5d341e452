# SPDX-License-Identifier: GPL-2.0-only
"""The data races that KCSAN finds: in our code they are errors, in that of others they are told."""

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pagehaul.errors import PagehaulError
from pagehaul.kernel import series, source, tree
from pagehaul.kernel.built import Kernel
from pagehaul.kernel.series import Content

# The variants that look for them.
VARIANTS = ("kcsan",)

# What is compiled from our sources, and what our patches change most. Of the other files that they
# change, the functions that they add or change are ours.
_OURS = ("mm/migrate_copy/*.o", "mm/migrate.o", "drivers/dma/softdma.o")

# Between lines of mm/migrate.c that no patch of ours changes and lines elsewhere: told, no error.
# folio_migrate_flags(), alloc_migration_target() and, compiled into kernel_move_pages(),
# __add_folio_for_migration() read the node and the zone out of folio->flags with a plain load,
# while who waits for the migration sets PG_waiters there, a fork clears PG_anon_exclusive, and who
# unmaps the folio sets PG_referenced. The bits of node and zone never change.
_UNCHANGED = (
    "folio_migrate_flags / migration_entry_wait_on_locked",
    "alloc_migration_target / copy_page_range",
    "folio_mark_accessed / kernel_move_pages",
)

_REPORT = re.compile(r"BUG: KCSAN: (.*)")

# A function of the kernel, in whose style both braces around its body begin a line. The lines
# before it up to an empty one, a comment, a directive or another brace are its head.
_FUNCTION = re.compile(r"^((?:(?![#}/*\s]).*\n(?:[ \t].*\n)*)+)\{\n(?:.*\n)*?\}", re.MULTILINE)
_SYSTEM_CALL = re.compile(r"\bSYSCALL_DEFINE\d\((\w+)")
_NAME = re.compile(r"(?<!\w)(?!__attribute__|__printf)(\w+)\(")


def functions(kernel: Kernel) -> set[str]:
    """Return the names of our functions in a kernel, without what the compiler adds to them."""
    return _in_our_objects(kernel) | _in_patched_files(kernel)


def _in_our_objects(kernel: Kernel) -> set[str]:
    objects = sorted(path for pattern in _OURS for path in kernel.tree.glob(pattern))
    if not objects:
        raise PagehaulError(f"no object files of ours in {kernel.tree}; build the kernel again")
    return _symbols(*objects)


def _symbols(*objects: Path) -> set[str]:
    """Return the names of the functions that object files have."""
    listed = subprocess.run(
        ["nm", "--defined-only", "--format=posix", *map(str, objects)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split() for line in listed.stdout.splitlines())
    return {words[0].partition(".")[0] for words in lines if words[1:2] in (["t"], ["T"])}


def _sources(kernel: Kernel) -> tuple[Path, Content]:
    """Return the pristine source of a kernel of ours, and what is laid over it."""
    assert kernel.base is not None
    content = series.content(kernel.base, series.parts_of(kernel.variant))
    return source.ensure(kernel.base), content


def _in_patched_files(kernel: Kernel) -> set[str]:
    pristine, content = _sources(kernel)
    found = set()
    for name in tree.patched_sources(content):
        compiled = (kernel.tree / name).with_suffix(".o")
        # Others are not a part of this kernel.
        if compiled.exists():
            before, after = (
                definitions((top / name).read_text(encoding="utf-8"))
                for top in (pristine, kernel.tree)
            )
            changed = {each for each, text in after.items() if text != before.get(each)}
            found |= compiled_into(changed, after, _symbols(compiled))
    return found


def definitions(text: str) -> dict[str, str]:
    """Return the functions that a file of the kernel defines: names, and all of their text."""
    found: dict[str, str] = {}
    for each in _FUNCTION.finditer(text):
        if call := _SYSTEM_CALL.search(each[1]):
            name = f"__do_sys_{call[1]}"
        elif named := _NAME.search(each[1]):
            name = named[1]
        else:
            # A name with an initializer and no parameters is no function.
            continue
        # Some have another body in another configuration.
        found[name] = found.get(name, "") + each[0]
    return found


def compiled_into(names: set[str], defined: Mapping[str, str], symbols: set[str]) -> set[str]:
    """Return under which names of an object file functions can be reported.

    One that has no symbol was compiled into those that call it. Their names stand for it: in them
    a race of others is an error, too, rather than one of ours none.
    """
    found: set[str] = set()
    wanted = set(names)
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        if name.startswith("__do_sys_"):
            # The wrappers around it are made by macros.
            found |= {name, name.replace("__do_", "__se_")}
        elif name in symbols:
            found.add(name)
        else:
            used = re.compile(rf"(?<!\w){name}(?!\w)")
            wanted |= {each for each, text in defined.items() if used.search(text)} - seen
    return found


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
