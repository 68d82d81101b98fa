"""Find public functions, classes and methods of `scheduler/` that no code uses.

    python -m tests.unused_names

A name is used if code outside its own definition reads it, or if a string of the package is that
name (extension points are found by name, classes by `module:Class`). What a public door exports is
used by others, methods included. Tests do not count: what only tests use is dead.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.sources import ROOT, tree

#: The packages whose code counts as use: `conformance` runs our scheduler by a reference string.
USERS = ("scheduler", "conformance")
#: What other people import.
DOORS = (
    "scheduler/__init__.py",
    "scheduler/framework/__init__.py",
    "scheduler/testing/__init__.py",
)

#: Called by a library that finds them by name.
CALLED_BY_LIBRARIES = {
    "_Dumper.ignore_aliases",  # PyYAML
    "_Commands.format_commands",  # click
    "_Commands.get_command",  # click
    "_Commands.list_commands",  # click
    "_Commands.shell_complete",  # click
    "_Families.collect",  # prometheus-client
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class UnusedName(NamedTuple):
    """A definition without a use, and its place."""

    path: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}"


def unused_names() -> list[UnusedName]:
    """Return the public definitions of the package that nothing uses."""
    trees = {
        path.relative_to(ROOT).as_posix(): tree(path)
        for package in USERS
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    exported = {name for path in DOORS for name in _imported(trees[path])}
    used = Counter(name for module in trees.values() for name in _uses(module))
    used.update(
        name.partition(".")[2]
        for module in trees.values()
        for _, name in _definitions(module)
        if name.partition(".")[0] in exported
    )
    return [
        UnusedName(path, node.lineno, name)
        for path, module in trees.items()
        if path.startswith("scheduler/")
        for node, name in _definitions(module)
        if name.partition(".")[0] not in exported
        and name not in CALLED_BY_LIBRARIES
        and used[node.name] == Counter(_uses(node))[node.name]
    ]


def _definitions(module: ast.Module) -> Iterator[tuple[Definition, str]]:
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_") and not _is_registered(node):
            yield node, node.name
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if (
                    isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not inner.name.startswith("_")
                    and not _is_registered(inner)
                ):
                    yield inner, f"{node.name}.{inner.name}"


def _is_registered(node: Definition) -> bool:
    """Return True if a decorator hands the definition to others, as `@click.command` does."""
    return any(
        re.match(r"click\.|override", ast.unparse(decorator)) for decorator in node.decorator_list
    )


def _imported(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _uses(root: ast.AST) -> Iterator[str]:
    for node in ast.walk(root):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"[\w.]+(:\w+)?", node.value):
                yield from re.split(r"[.:]", node.value)
            elif re.fullmatch(r"[\w.\[\], |]+", node.value):  # a quoted annotation
                yield from re.findall(r"\w+", node.value)


if __name__ == "__main__":
    found = unused_names()
    sys.stdout.write("".join(f"{name}\n" for name in found) + f"{len(found)} in all\n")
