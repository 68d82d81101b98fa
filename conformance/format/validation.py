"""Validate a file of cases against `schema.json`; an error is one line with place and reason."""

from __future__ import annotations

import difflib
import functools
import json
import textwrap
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import jsonschema
import yaml

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

    from jsonschema.exceptions import ValidationError

_SHOWN_MAX: Final = 60
_BOOL: Final = "tag:yaml.org,2002:bool"
_MERGE: Final = "tag:yaml.org,2002:merge"
_TYPES: Final = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "string": "a text",
}


#: libyaml's loader where PyYAML has it: many times faster than the one in Python.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(SAFE_LOADER):  # type: ignore[misc]
    """A safe YAML loader with two differences.

    A duplicate key is an error, and only `true` and `false` are booleans: `no`, `on` and `y` are
    strings, as in YAML 1.2.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [pair for pair in pairs if first in "tTfF" or pair[0] != _BOOL]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 (PyYAML's own signature)
    ) -> dict[Hashable, object]:
        keys: set[object] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in keys:
                    line = key.start_mark.line + 1
                    raise InputError(f"line {line}: the key {key.value} is given twice")
                keys.add(key.value)
        result: dict[Hashable, object] = super().construct_mapping(node, deep=deep)
        return result


class CaseSource(NamedTuple):
    """The place of a case in its file: its line, the lines of its steps by place, and its text."""

    line: int
    step_lines: dict[str, int]
    text: str


class Document(NamedTuple):
    """The content of a file, and the place of each item of its list `cases`."""

    content: object
    sources: list[CaseSource]


def read_yaml(path: Path) -> Document:
    """Read the only document of a file. Raises InputError."""
    try:
        data = path.read_bytes()
        loader = _Loader(data)  # a safe loader, but for duplicate keys
        try:
            root = loader.get_single_node()
            content = None if root is None else loader.construct_document(root)
            return Document(content, _sources(root, data.decode(errors="replace").splitlines()))
        finally:
            loader.dispose()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).split()).replace('"<byte string>"', f'"{path.name}"')
        raise InputError(f"{path}: {text}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_valid_yaml(path: Path) -> Document:
    """Read a file of cases. Raises InputError, also where the schema does not hold."""
    document = read_yaml(path)
    problem = problem_in(document.content)
    if problem is not None:
        raise InputError(f"{path}: {problem}")
    return document


def _sources(root: yaml.Node | None, lines: list[str]) -> list[CaseSource]:
    return [
        CaseSource(
            case.start_mark.line + 1,
            dict(_step_lines(case, "steps")),
            _text(case, lines),
        )
        for case in _items(root, "cases")
    ]


def _text(node: yaml.Node, lines: list[str]) -> str:
    """Return the lines of a case; a block ends where the next one begins."""
    first, last = node.start_mark.line, node.end_mark.line
    ends_before = last >= len(lines) or not lines[last][: node.end_mark.column].strip(" -")
    chosen = lines[first : last if ends_before and last > first else last + 1]
    return textwrap.dedent("\n".join(chosen)).strip()


def _step_lines(parent: yaml.Node, place: str) -> Iterator[tuple[str, int]]:
    """Yield the places of steps, as `steps[3].repeat.steps[0]`, and their lines."""
    for number, step in enumerate(_items(parent, "steps")):
        where = f"{place}[{number}]"
        yield where, step.start_mark.line + 1
        repeated = _value(step, "repeat")
        if repeated is not None:
            yield from _step_lines(repeated, f"{where}.repeat.steps")


def _items(parent: yaml.Node | None, name: str) -> list[yaml.Node]:
    value = _value(parent, name)
    return value.value if isinstance(value, yaml.SequenceNode) else []


def _value(parent: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(parent, yaml.MappingNode):
        return None
    return next((value for key, value in parent.value if key.value == name), None)


@functools.cache
def schema() -> dict[str, object]:
    """Return the published schema of a file of cases."""
    text = resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def problem_in(document: object) -> str | None:
    """Return the first error in a file's content as one line, or None."""
    if isinstance(document, dict) and document.keys().isdisjoint({"area", "cases"}):
        return "expected a file of scheduler conformance cases, it has neither area nor cases"
    errors = sorted(
        _validator().iter_errors(document), key=lambda error: list(map(str, error.path))
    )
    if not errors:
        return None
    error = errors[0]
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = _place(document, [*error.absolute_path])
    return f"{where}{_explanation(error)}{others}"


def _place(document: object, path: list[str | int]) -> str:
    """Return `case NAME: steps[2].expect: `; empty for the file as a whole."""
    case = ""
    if len(path) >= 2 and path[0] == "cases" and isinstance(document, dict):
        raw = document["cases"][path[1]]
        name = raw.get("name") if isinstance(raw, dict) else None
        case = f"case {name}: " if isinstance(name, str) else f"case number {int(path[1]) + 1}: "
        path = path[2:]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{case}{field.lstrip('.')}: " if field else case


def _explanation(error: ValidationError) -> str:
    rule, instance, expected = error.validator, error.instance, error.schema
    assert isinstance(expected, dict), "no schema of ours is a mere true"
    given = [str(name) for name in instance] if isinstance(instance, dict) else []
    if rule == "additionalProperties":
        fields = sorted(expected.get("properties", {}))
        unknown = next(name for name in given if name not in fields)
        close = difflib.get_close_matches(unknown, fields, 1)
        hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(fields)}"
        return f"unknown field {unknown}; {hint}"
    if rule == "required":
        missing = next(name for name in expected["required"] if name not in given)
        return f"{missing} is missing"
    if rule in ("minProperties", "maxProperties") and "title" not in expected:
        one_of = ", ".join(sorted(expected.get("properties", {})))
        return f"expected exactly one of {one_of}, got {', '.join(given) or 'none'}"
    if "title" in expected:
        return f"expected {expected['title']}, got {_shown(instance)}"
    if rule in ("minItems", "minLength"):
        return f"expected {'at least one' if rule == 'minItems' else 'some text'}, got none"
    if rule == "type":
        types = expected["type"]
        names = [types] if isinstance(types, str) else types
        wanted = " or ".join(_TYPES.get(name, name) for name in names)
        return f"expected {wanted}, got {_shown(instance)}"
    if rule in ("enum", "const"):
        values = expected.get("enum", [expected.get("const")])
        return f"expected {' or '.join(map(json.dumps, values))}, got {_shown(instance)}"
    return str(error.message)


def _shown(instance: object) -> str:
    text = json.dumps(instance, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
