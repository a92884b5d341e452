# SPDX-License-Identifier: GPL-2.0-only
"""The JSON Schema of results: it says what the tool writes, and refuses what the tool refuses."""

import json
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from test_report import results as host_results
from test_results import document
from test_virtual_tables import everything

from pagehaul.bench import schema, store
from pagehaul.bench.known import MEASURES
from pagehaul.bench.measures.faults import Faults
from pagehaul.bench.measures.hog import Hog
from pagehaul.bench.measures.reads import Reads
from pagehaul.bench.measures.remap import Remap
from pagehaul.bench.measures.serving import Phase, Serving
from pagehaul.bench.measures.touch import Touch, Touches
from pagehaul.bench.row import CLOCKS, KERNELS, METHODS, Integrity, Row, Statement
from pagehaul.errors import PagehaulError

SCHEMA: dict[str, Any] = json.loads(
    resources.files("pagehaul.data").joinpath("results.schema.json").read_text(encoding="utf-8")
)
# Measures stand beside the other fields of a row.
ROW_FIELDS = [each.name for each in fields(Row) if each.name != "seen"]
ROW_FIELDS += [measure.name for measure in MEASURES]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
# All keywords that the schema uses, and that fits() knows.
KEYWORDS = {"$schema", "$comment", "$defs", "$ref", "title", "description", "type", "enum", "const"}
KEYWORDS |= {"anyOf", "properties", "required", "additionalProperties", "items", "minItems"}
KEYWORDS |= {"minLength", "minimum", "exclusiveMinimum"}


def test_the_committed_schema_is_what_the_measures_say() -> None:
    assert schema.whole() == SCHEMA, (
        "run: .venv/bin/python -m pagehaul.bench.schema > src/pagehaul/data/results.schema.json"
    )


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema describes."""
    assert schema.keys() <= KEYWORDS
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return any(fits(value, each) for each in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    alike = [name for name in names if isinstance(value, TYPES[name])]
    if not alike or (isinstance(value, bool) and "boolean" not in names):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        return set(schema.get("required", ())) <= value.keys() and all(
            fits(each, known.get(key, others))
            for key, each in value.items()
            if key in known or others
        )
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(
            fits(each, schema["items"]) for each in value
        )
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0)
    if value is None or isinstance(value, bool):
        return True
    above: bool = value > schema.get("exclusiveMinimum", float("-inf"))
    return above and bool(value >= schema.get("minimum", float("-inf")))


def test_what_the_tool_writes_fits(tmp_path: Path) -> None:
    for number, made in enumerate((host_results(), everything())):
        path = tmp_path / f"{number}.json"
        store.dump(made, path)
        assert fits(json.loads(path.read_text(encoding="utf-8")), SCHEMA)
    assert fits(document(), SCHEMA)


def test_every_field_is_described() -> None:
    kinds = {
        "row": Row,
        "integrity": Integrity,
        "statement": Statement,
        "touch": Touch,
        "touches": Touches,
        "remap": Remap,
        "reads": Reads,
        "hog": Hog,
        "faults": Faults,
        "serving": Serving,
        "phase": Phase,
    }
    assert SCHEMA["$defs"].keys() == kinds.keys()
    for name, kind in kinds.items():
        names = ROW_FIELDS if name == "row" else [each.name for each in fields(kind)]
        assert SCHEMA["$defs"][name]["properties"].keys() == set(names)
    assert SCHEMA["properties"]["schema"] == {"const": store.SCHEMA}
    row = SCHEMA["$defs"]["row"]["properties"]
    assert row["kernel"] == {"enum": list(KERNELS)}
    assert row["method"] == {"enum": list(METHODS)}
    assert row["clock"] == {"enum": list(CLOCKS)}


@pytest.mark.parametrize("field", ROW_FIELDS)
def test_the_schema_requires_what_the_tool_requires(field: str) -> None:
    made = document()
    del made["rows"][0][field]
    required = field in SCHEMA["$defs"]["row"]["required"]
    assert fits(made, SCHEMA) != required
    if required:
        with pytest.raises(PagehaulError, match=field):
            store.parse(made, "r.json")
    else:
        store.parse(made, "r.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kernel", "other"),
        ("gbps", []),
        ("gbps", [0.0]),
        ("threads", 0),
        ("threads", True),
        ("median_gbps", "fast"),
        ("model", ""),
        ("touch", {"moves": 1}),
        ("counters", {"a": -1}),
        ("hog", {"moves": 1, "share": -1, "lost_ns": 0}),
    ],
)
def test_what_the_tool_refuses_does_not_fit(field: str, value: object) -> None:
    made = document()
    made["rows"][0][field] = value
    assert not fits(made, SCHEMA)
    with pytest.raises(PagehaulError):
        store.parse(made, "r.json")


def test_other_versions_do_not_fit() -> None:
    assert not fits({**document(), "schema": store.SCHEMA - 1}, SCHEMA)
    assert fits(asdict(Statement("All is well.", True)), SCHEMA["$defs"]["statement"])
