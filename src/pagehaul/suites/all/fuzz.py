# SPDX-License-Identifier: GPL-2.0-only
"""What nobody means, asked of the system calls and written into the knobs."""

import shlex

from pagehaul.guest import cprogs
from pagehaul.host import tools
from pagehaul.kernel import build, built
from pagehaul.kernel.build import DEBUG_VARIANTS
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.programs import GUEST, Program, flat, run_programs
from pagehaul.suites.suite import OURS, Subject, Suite

# Seconds, and those on a kernel that looks for mistakes.
_KNOBS_S = (20, 120)
_CALLS_S = (40, 600)

_SEED = 1
_CALLS = ("move_pages", "mbind", "migrate_pages", "set_mempolicy", "madvise")

# Other CPUs are asked to help with whatever moves, however little it is. trinity does not always
# end by itself; what it says before tells how much it did.
_TRINITY = """\
echo 1 > /proc/sys/vm/mt_page_copy
[ -e /sys/kernel/debug/migrate_copy ] || mount -t debugfs none /sys/kernel/debug
echo 4 > /sys/kernel/debug/migrate_copy/chunk_kb
mkdir -p /run/trinity && chown nobody /run/trinity && cd /run/trinity
setpriv --reuid=nobody --regid=nogroup --clear-groups \\
    timeout --signal=INT --kill-after=30 @SECONDS@ \\
    trinity --quiet --stats --logging=off --children=4 -s@SEED@ --disable-fds=sockets \\
    --disable-fds=perf --disable-fds=drm @CALLS@ > log 2>&1 < /dev/null
pkill -KILL -x trinity
grep -a -A 8 'iterations\\|Ran .* syscalls\\|attempted' log | tail -40 | sed 's/^/# /'
echo 1..@NUMBER@
number=0
for call in @NAMES@; do
    number=$((number + 1))
    grep -a -q "^$call: (attempted:[1-9]" log && result=ok || result='not ok'
    echo "$result $number - $call"
done
"""


def _work(subject: Subject) -> list[Outcome]:
    """Fuzz the knobs as root and the system calls as nobody; the kernel has to stay well."""
    tools.require("trinity")
    kernel = build.build(subject.ours, subject.base)
    slow = subject.ours in DEBUG_VARIANTS
    directory = cprogs.selftests(kernel.tree, "migrate_copy", ["migrate_fuzz"])
    knobs = [str(directory / "migrate_fuzz"), "-t", str(_KNOBS_S[slow]), "-s", str(_SEED)]
    knobs += built.module_options(kernel)
    calls = (
        _TRINITY.replace("@SECONDS@", str(_CALLS_S[slow]))
        .replace("@SEED@", str(_SEED))
        .replace("@CALLS@", " ".join(f"-c {name},64" for name in _CALLS))
        .replace("@NAMES@", " ".join(_CALLS))
        .replace("@NUMBER@", str(len(_CALLS)))
    )
    programs = [Program("knobs", shlex.join(knobs)), Program("trinity", calls)]
    return flat(run_programs("fuzz", kernel, GUEST, programs), kernel)


SUITE = Suite("fuzz", 160, _work, of_variants=True, kernels=(OURS,))
