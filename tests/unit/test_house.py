# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the tool: who imports whom, and how large modules and functions are."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from pagehaul.paths import REPO

SOURCES = REPO / "src"
PACKAGE = SOURCES / "pagehaul"

MOST_LINES = 400
MOST_PARAMETERS = 6

# Modules that import all modules of a room by their names: there is no statement for that.
BY_NAME = {
    "pagehaul.bench.catalogue": "pagehaul.bench.experiments",
    "pagehaul.bench.known": "pagehaul.bench.measures",
    "pagehaul.cli.verbs": "pagehaul.cli",
    "pagehaul.suites.registry": "pagehaul.suites.all",
}
# In the room of the verbs these are none.
NO_VERBS = {"main", "options", "parser", "roff", "verbs", "version"}

# From the ground to the roof: a room imports what is before it. Modules of no room are the ground.
ROOMS = ("host", "move", "kernel", "guest", "bench", "report", "suites", "cli")

Graph = Mapping[str, set[str]]


def modules(top: Path = SOURCES) -> dict[str, Path]:
    """Return the files of all modules and packages below a directory, by their full names."""
    found = {}
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def named_in(tree: ast.AST) -> Iterator[str]:
    """Yield all that a module imports, at its top or later; of `from a import b` a.b, then a."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide what is imported"
            for each in node.names:
                yield f"{node.module}.{each.name}"
            yield str(node.module)


def graph(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports of the others.

    Who imports a module runs the packages above it, too, if they have anything to run.
    """
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        wanted = {each for each in named_in(ast.parse(path.read_text("utf-8"))) if each in files}
        # `from package import module` names the package only to get at the module.
        wanted -= {each for each in wanted if files[each].name == "__init__.py" and not runs(each)}
        above = {part for each in wanted for part in packages_of(each) if runs(part)}
        found[name] = (wanted | above) - {name}
    for name, room in BY_NAME.items():
        if name in files:
            inside = {each for each in files if each.rpartition(".")[0] == room}
            left = NO_VERBS if room == "pagehaul.cli" else set()
            found[name] |= {each for each in inside if each.rpartition(".")[2] not in left}
    return found


def packages_of(name: str) -> list[str]:
    """Return the packages that a module is in, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def runs(package: str) -> bool:
    """Whether a package of ours has more than a docstring."""
    path = SOURCES.joinpath(*package.split("."), "__init__.py")
    return path.exists() and len(ast.parse(path.read_text("utf-8")).body) > 1


def by_room(imports: Graph) -> dict[str, set[str]]:
    """Return which rooms the modules of each room import."""
    found: dict[str, set[str]] = {}
    for name, wanted in imports.items():
        others = {room_of(each) for each in wanted} - {room_of(name)}
        found.setdefault(room_of(name), set()).update(others)
    return found


def room_of(module: str) -> str:
    """Return the room of a module, "" for one that is in none."""
    if module == "pagehaul.__main__":
        return "cli"
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""


def circle(imports: Graph) -> list[str]:
    """Return a circle, from a module to itself again; nothing if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_each_other_in_no_circle() -> None:
    assert circle(graph(modules())) == []


def test_rooms_import_each_other_in_no_circle() -> None:
    assert circle(by_room(graph(modules()))) == []


def test_a_room_imports_what_is_below_it() -> None:
    found = by_room(graph(modules()))
    assert {room for room in found if room} - {"data"} == set(ROOMS)
    for number, room in enumerate(ROOMS):
        assert found[room] <= {"", "data", *ROOMS[:number]}, room
    assert found["move"] <= {"", "host"}


@pytest.mark.parametrize("where", ["top", "later"])
def test_a_circle_is_found(tmp_path: Path, where: str) -> None:
    (tmp_path / "pagehaul").mkdir()
    texts = {
        "__init__": '"""A package."""\n',
        "one": "from pagehaul import two\n",
        "two": "from pagehaul.three import name\n",
        "three": "import pagehaul.one\nname = 1\n",
    }
    if where == "later":
        texts["three"] = "name = 1\ndef run() -> None:\n    from pagehaul import one\n"
    for name, text in texts.items():
        (tmp_path / "pagehaul" / f"{name}.py").write_text(text)
    found = circle(graph(modules(tmp_path)))
    assert {"pagehaul.one", "pagehaul.two", "pagehaul.three"} == set(found)


def test_packages_run_nothing() -> None:
    """A module whose package runs on would be imported while that is half made."""
    packages = [name for name, path in modules().items() if path.name == "__init__.py"]
    assert [name for name in packages if runs(name)] == []


@pytest.mark.parametrize("name", sorted(modules()))
def test_no_module_is_too_long(name: str) -> None:
    lines = len(modules()[name].read_text("utf-8").splitlines())
    assert lines <= MOST_LINES


def test_no_function_has_too_many_parameters() -> None:
    found = []
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                count = parameters(node)
                if count > MOST_PARAMETERS:
                    found.append(f"{name}:{node.lineno} has {count}")
    assert found == []


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """Return how many parameters a function has, without the object that it is called on."""
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    extra = [each for each in (given.vararg, given.kwarg) if each is not None]
    return sum(each.arg not in ("self", "cls") for each in (*named, *extra))
