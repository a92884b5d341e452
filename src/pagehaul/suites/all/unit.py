# SPDX-License-Identifier: GPL-2.0-only
"""The tests of the tool, which need no kernel."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from pagehaul import ui
from pagehaul.errors import PagehaulError
from pagehaul.host import facts, tools
from pagehaul.paths import REPO, log_dir
from pagehaul.suites.outcomes import Outcome, failed, passed, skipped
from pagehaul.suites.suite import Subject, Suite

_TIMEOUT_S = 900.0


def _work(subject: Subject) -> list[Outcome]:
    """Run pytest on tests/unit, which is the same for each kernel."""
    del subject
    tools.need_for("unit")
    # A browser is large: where nobody is there to ask, as in CI, the page is looked at as well.
    if os.environ.get("CI"):
        tools.need_for("browser")
    log = log_dir() / "test-unit.log"
    log.write_text("", encoding="utf-8")
    with TemporaryDirectory(prefix="pagehaul-unit-") as directory:
        report = Path(directory) / "junit.xml"
        # A file stays on one CPU: its tests share what takes long to make, such as a browser.
        parallel = ["-n", str(facts.cpus()), "--dist", "loadfile"]
        words = [sys.executable, "-m", "pytest", "tests/unit", *parallel, f"--junitxml={report}"]
        error = ""
        try:
            ui.run_logged(ui.Command(words, REPO), log, title="pytest", timeout=_TIMEOUT_S)
        except PagehaulError as caught:
            error = str(caught)
        outcomes = read_junit(report.read_text(encoding="utf-8")) if report.exists() else []
    if error and not any(outcome.status.value == "failed" for outcome in outcomes):
        outcomes.append(failed("pytest", error))
    return outcomes or [failed("pytest", f"no test was run; see {log}")]


def read_junit(text: str) -> list[Outcome]:
    """Return the tests of a JUnit report."""
    outcomes = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        problem = next((found for tag in ("failure", "error") for found in case.iter(tag)), None)
        skip = case.find("skipped")
        if problem is not None:
            outcomes.append(failed(name, problem.get("message") or "failed"))
        elif skip is not None:
            outcomes.append(skipped(name, skip.get("message") or "no reason given"))
        else:
            outcomes.append(passed(name))
    return outcomes


SUITE = Suite("unit", 10, _work, boots=False)
