"""The house rules of ARCHITECTURE.md, as tests: limits only ever go down."""

import ast
import gc
import graphlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import plain_words, unused_names
from tests.sources import ROOT, files, nodes, tree

PACKAGES = ("scheduler", "fakeapi", "conformance")
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

#: Where no hard words may be (`python -m tests.plain_words PATH` lists them).
PLAIN_PACKAGES = ("scheduler", "fakeapi", "conformance", "tests", ".")

#: Terms of our own, in the glossary of ARCHITECTURE.md.
GLOSSARY_TERMS_MAX = 20

#: Public names that nothing uses (`python -m tests.unused_names` lists them). Only ever lowered.
UNUSED_NAMES_MAX = 0

#: The only modules that may read the machine's clock.
CLOCKS = {"scheduler/clock.py", "fakeapi/clock.py", "conformance/clock.py"}

#: The decision path: values in, values out.
PURE = (
    "scheduler/api/",
    "scheduler/snapshot/",
    "scheduler/framework/",
    "scheduler/cache/",
    "scheduler/queue/",
)
IMPURE_MODULES = {"asyncio", "aiohttp", "socket", "random", "time", "threading"}


PYTHON_FILES = files("*.py")
SOURCES = [path for path in PYTHON_FILES if path.relative_to(ROOT).parts[0] in PACKAGES]


@pytest.fixture(scope="module", autouse=True)
def keep_trees() -> Iterator[None]:
    """Keep the syntax trees for this module only: collecting garbage among them is slow."""
    gc.disable()
    yield
    nodes.cache_clear()
    tree.cache_clear()
    gc.enable()


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in nodes(path) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _imports(path: Path) -> set[str]:
    """The top-level names a module imports, those needed only by the type checker left out."""
    guarded = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in nodes(path):
        if node in guarded:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_the_limit() -> None:
    long = {
        _name(p): n
        for p in PYTHON_FILES
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    }
    assert not long


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{_name(path)}:{node.lineno} {node.name} has {_length(node)} lines"
        for path in PYTHON_FILES
        for node in _functions(path)
        if _length(node) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_most_functions_are_short() -> None:
    lengths = sorted(_length(node) for path in SOURCES for node in _functions(path))
    assert lengths[len(lengths) * 9 // 10] <= 35


def test_every_module_has_a_docstring() -> None:
    mute = [_name(path) for path in SOURCES if not ast.get_docstring(tree(path))]
    assert not mute


def test_only_the_clock_modules_read_the_clock() -> None:
    readers = []
    for path in SOURCES:
        if _name(path) in CLOCKS:
            continue
        if "time" in _imports(path):
            readers.append(f"{_name(path)} imports time")
        readers += [
            f"{_name(path)}:{node.lineno} {ast.unparse(node)}"
            for node in nodes(path)
            if isinstance(node, ast.Call)
            and re.search(r"(datetime|date)\.(now|utcnow|today)$|\.time$", ast.unparse(node.func))
            and not ast.unparse(node.func).endswith("clock.time")
        ]
    assert not readers


def test_decisions_are_pure() -> None:
    impure = {
        _name(path): bad
        for path in SOURCES
        if _name(path).startswith(PURE) and (bad := _imports(path) & IMPURE_MODULES)
    }
    assert not impure


def test_no_drawer_for_odds_and_ends() -> None:
    drawers = [
        _name(p) for p in SOURCES if p.stem in {"utils", "util", "helpers", "common", "misc"}
    ]
    assert not drawers


def test_no_unfinished_business() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
    left = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in PYTHON_FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not left


def test_nothing_prints_but_command_lines() -> None:
    printers = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not printers


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if "\n__all__" in p.read_text(encoding="utf-8")], ids=_name
)
def test_all_exported_names_of_a_module_exist(path: Path) -> None:
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == "__all__" for t in node.targets):
            offered = ast.literal_eval(node.value)
            break
    else:
        pytest.fail("__all__ is not a plain list")
    defined = {
        n.id for n in nodes(path) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for inner in nodes(path):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(inner.name)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            defined.update(alias.asname or alias.name.split(".")[0] for alias in inner.names)
    assert len(offered) == len(set(offered))
    assert set(offered) <= defined


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path) for path in PYTHON_FILES}


def _imported_modules(path: Path) -> set[str]:
    """The modules a file may import: each name, and each name's module."""
    package = _module(path).split(".")
    if path.stem != "__init__":
        package = package[:-1]
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names if names <= MODULES else {module, *names}
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """An import for the type checker counts: modules that need each other's types are one."""
    graph = {
        _module(path): (_imported_modules(path) & MODULES) - {_module(path)} for path in SOURCES
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_every_module_is_reachable() -> None:
    """A file that nothing imports, names or starts is dead."""
    named = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + "".join(
        p.read_text(encoding="utf-8") for p in SOURCES
    )
    reached = {
        module
        for path in PYTHON_FILES
        for module in _imported_modules(path)
        if module != _module(path)
    }
    dead = [
        _name(path)
        for path in SOURCES
        if path.stem not in {"__init__", "__main__"}
        and _module(path) not in reached
        and f"{_module(path)}:" not in named
        and f' = "{_module(path)}"' not in named
    ]
    assert not dead


@pytest.mark.parametrize("package", PLAIN_PACKAGES)
def test_words_are_plain(package: str) -> None:
    assert plain_words.hits_in_package(package) == []


def test_public_names_are_used() -> None:
    unused = unused_names.unused_names()
    assert len(unused) <= UNUSED_NAMES_MAX, "\n".join(map(str, unused))
    assert len(unused) == UNUSED_NAMES_MAX, f"lower UNUSED_NAMES_MAX to {len(unused)}"


def _architecture() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_glossary_is_short_and_complete() -> None:
    """Each term has a type and one sentence."""
    glossary = _architecture().partition("## Glossary")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in glossary.splitlines()
        if line.startswith("|")
    ][2:]
    assert 0 < len(rows) <= GLOSSARY_TERMS_MAX
    assert [row for row in rows if len(row) != 3 or not all(row)] == []
    assert len({row[0] for row in rows}) == len(rows)
    defined = {
        name for path in SOURCES for node in tree(path).body for name in _names_bound_by(node)
    }
    assert [row[0] for row in rows if row[1].strip("`") not in defined] == []


def _names_bound_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def test_the_layers_are_those_of_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c.get("containers") == ["scheduler"]]
    blocks = re.findall(r"^```\n(.*?)^```", _architecture(), flags=re.M | re.S)
    assert layers in [block.splitlines() for block in blocks]


def test_files_in_the_way_of_a_pod_exist() -> None:
    (drawing,) = re.findall(
        r"^## The way of one pod\n\n```\n(.*?)^```", _architecture(), re.M | re.S
    )
    named = re.findall(r"\b[a-z_]+/[a-z_/]+\.py\b", drawing)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "scheduler" / name).exists()] == []
