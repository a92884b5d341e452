# SPDX-License-Identifier: GPL-2.0-only
"""Pages of results for docs/results/."""

import re

from whole_run import whole_run

from pagehaul.report import markdown

RUN = whole_run(model="plain", quick=True)


def test_a_page_has_every_table_with_kernel_model_and_date() -> None:
    results = RUN
    page = markdown.page(results)
    assert len(re.findall(r"^## ", page, re.M)) >= len(results.experiments())
    for name in ("date", "commit", "kernels", "clock", "machine models", "verified"):
        assert re.search(rf"^\| {name} \| \S", page, re.M), name


def test_tables_are_even_and_prose_keeps_its_width() -> None:
    columns = 0
    for line in markdown.page(RUN).splitlines():
        if line.startswith("|"):
            found = len(re.findall(r"(?<!\\)\|", line))
            assert columns in (0, found), line
            columns = found
        else:
            columns = 0
            assert len(line) <= 100 or line.startswith("#"), line
