# SPDX-License-Identifier: GPL-2.0-only
"""The simulator's own tests, which need no QEMU, and what each file of it promises."""

import re
import subprocess
from pathlib import Path

from pagehaul.paths import REPO

SIM = REPO / "sim"


def test_instructions_and_costs(tmp_path: Path) -> None:
    command = ["make", "-C", str(SIM), f"O={tmp_path}", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^(not )?ok \d+ - .*$", done.stdout, re.M)
    assert len(lines) > 40 and not any(lines)
    assert f"1..{len(lines)}" in done.stdout


def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    command = ["make", "-C", str(SIM), f"O={tmp_path}", "CFLAGS=-O2 -Werror", "all"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "vtime.so").is_file()
