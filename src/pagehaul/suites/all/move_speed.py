# SPDX-License-Identifier: GPL-2.0-only
"""The speed of the verb `move` beside other ways, in virtual time."""

from pagehaul.guest import models
from pagehaul.guest.machine import Guest
from pagehaul.host import tools
from pagehaul.suites import scripts
from pagehaul.suites.outcomes import Outcome
from pagehaul.suites.suite import Subject, Suite

# MB that each way moves, of base pages and of huge pages; and MiB of a guest with room for them.
_MB = 4096
_GUEST_MB = 10240

_CPUS = 16


def _work(subject: Subject) -> list[Outcome]:
    tools.require("numactl")
    guest = Guest(cpus=_CPUS, memory_mb=_GUEST_MB, model=models.load(models.DEFAULT))
    words = [str(_MB), "base", "thp"]
    return scripts.run(subject, guest, "time_move.py", ["victim", "movewindows"], words)


SUITE = Suite("move-speed", 185, _work, on_request=True)
