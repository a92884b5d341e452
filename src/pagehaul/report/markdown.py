# SPDX-License-Identifier: GPL-2.0-only
"""Results as a page for docs/results/: tables, with kernel, machine model and date.

`python -m pagehaul.report.markdown RESULTS.json` prints the page of a run of `bench`.
"""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from pagehaul.bench.labels import Table
from pagehaul.bench.row import Results
from pagehaul.bench.store import load
from pagehaul.bench.tables import by_model, experiment_table

_WIDTH = 100


def page(results: Results) -> str:
    """Return a page with the table of each experiment, one for each machine model."""
    environment = results.environment
    kernels: dict[str, str] = environment.get("kernels", {})
    models = dict.fromkeys(row.model for row in results.rows if row.model is not None)
    integrity = results.integrity
    facts = {
        "experiments": ", ".join(results.experiments()),
        "date": str(environment.get("date", "not known")),
        "commit": str(environment.get("commit", "not known")),
        "kernels": ", ".join(f"{name} {release}" for name, release in kernels.items()),
        "clock": ", ".join(dict.fromkeys(row.clock for row in results.rows)),
        "machine models": ", ".join(models) or "none",
        "quick run": "yes" if environment.get("quick") else "no",
        "verified": f"{integrity.bytes_verified / 1e9:,.1f} GB, {integrity.mismatches} mismatches",
    }
    parts = [
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->\n"
        "<!-- Made by `python -m pagehaul.report.markdown`: "
        "measure again instead of editing it. -->\n"
        "# Results of a run",
        _grid(("", ""), list(facts.items())),
    ]
    for experiment in results.experiments():
        parts += [
            _section(experiment_table(part, experiment)) for part in by_model(results, experiment)
        ]
    return "\n\n".join(parts) + "\n"


def _section(table: Table) -> str:
    lines = textwrap.wrap(table.caption, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join((f"## {table.title}", _grid(table.header, table.rows), "\n".join(lines)))


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(argv: Sequence[str]) -> None:
    """Print the page of the file of results that is named."""
    print(page(load(Path(argv[0]))), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
