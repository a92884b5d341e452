# SPDX-License-Identifier: GPL-2.0-only
"""Data classes of figures as JSON: what they are read of, and what describes them."""

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pagehaul.bench.fields import Fields

T = TypeVar("T")


@dataclass(frozen=True)
class Least:
    """The smallest number that a field may have: `Annotated[float, Least(0)]`."""

    number: int


def read(kind: type[T], entry: Fields) -> T:
    """Return an object of a data class; PagehaulError names the field that is wrong.

    Its fields are whole numbers from 0 on, numbers, tuples of numbers, or objects that may be
    missing.
    """
    hints = get_type_hints(kind)
    found = {each.name: _read(each.name, hints[each.name], entry) for each in _fields(kind)}
    return kind(**found)


def _read(name: str, hint: Any, entry: Fields) -> Any:
    if hint is int:
        return entry.integer(name)
    if hint is float:
        return entry.number(name)
    if get_origin(hint) is tuple:
        return tuple(entry.number_of(value, name) for value in entry.list(name))
    inner = entry.mapping(name, optional=True)
    return read(_inside(hint), Fields(inner, f"{entry.name}.{name}")) if inner else None


def definitions(kind: type) -> dict[str, Any]:
    """Return the JSON Schemas of a data class and of those that it has objects of, by name."""
    hints = get_type_hints(kind, include_extras=True)
    properties = {each.name: _schema(hints[each.name]) for each in _fields(kind)}
    needed = sorted(each.name for each in _fields(kind) if each.default is MISSING)
    found = {
        name_of(kind): {"type": "object", "properties": properties, "required": needed},
    }
    for hint in hints.values():
        if isinstance(hint, UnionType):
            found |= definitions(_inside(hint))
    return found


def _schema(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Annotated:
        hint, least = get_args(hint)
        return {**_schema(hint), "minimum": least.number}
    if hint is int:
        return {"type": "integer", "minimum": 0}
    if hint is float:
        return {"type": "number"}
    if get_origin(hint) is tuple:
        return {"type": "array", "minItems": 1, "items": {"type": "number"}}
    return maybe(_inside(hint))


def maybe(kind: type) -> dict[str, Any]:
    """Return the JSON Schema of an object of a data class that may be missing, or of a number."""
    if not is_dataclass(kind):
        return {"type": ["number", "null"]}
    return {"anyOf": [{"$ref": f"#/$defs/{name_of(kind)}"}, {"type": "null"}]}


def name_of(kind: type) -> str:
    """Return what a data class is called in the JSON Schema."""
    return kind.__name__.lower()


def _fields(kind: Any) -> tuple["Field[Any]", ...]:
    return fields(kind)


def _inside(hint: Any) -> type:
    """Return the data class of a hint such as `Touches | None`."""
    (found,) = (each for each in get_args(hint) if is_dataclass(each))
    assert isinstance(found, type)
    return found
