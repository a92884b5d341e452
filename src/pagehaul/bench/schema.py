# SPDX-License-Identifier: GPL-2.0-only
"""The JSON Schema of results: what is written there by hand, and what the measures say.

    .venv/bin/python -m pagehaul.bench.schema > src/pagehaul/data/results.schema.json

puts what a new measure says into the file.
"""

import json
from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any

from pagehaul.bench import plain
from pagehaul.bench.known import MEASURES
from pagehaul.bench.row import Row

# What no measure describes.
_BY_HAND = ("row", "integrity", "statement")


def whole() -> dict[str, Any]:
    """Return the schema with all measures."""
    text = resources.files("pagehaul.data").joinpath("results.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    schema["$defs"] = {name: schema["$defs"][name] for name in _BY_HAND}
    row = schema["$defs"]["row"]
    own = [each.name for each in fields(Row) if each.name != "seen"]
    row["properties"] = {name: row["properties"][name] for name in own}
    row["required"] = [name for name in row["required"] if name in own]
    for measure in MEASURES:
        row["properties"][measure.name] = plain.maybe(measure.kind)
        if measure.required:
            row["required"].append(measure.name)
        if is_dataclass(measure.kind):
            schema["$defs"] |= plain.definitions(measure.kind)
    return schema


if __name__ == "__main__":
    print(json.dumps(whole(), indent=2))
