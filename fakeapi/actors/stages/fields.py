"""The fields of a Stage, and their lines in its file.

Source: pkg/apis/v1alpha1/stage_types.go of KWOK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import yaml

from fakeapi.loading.manifests import LoadError
from fakeapi.types.gotext import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

Shape: TypeAlias = "str | Mapping[str, Shape] | list[Shape]"
_CEL: Final[Shape] = {"expression": "string"}
_FROM: Final[Shape] = {"cel": _CEL, "jq": {"expression": "string"}, "expressionFrom": "string"}
_SELECTOR_JQ: Final[dict[str, Shape]] = {
    "key": "string", "operator": "string", "values": ["string"],
}  # fmt: skip
_EVENT: Final[Shape] = {"type": "string", "reason": "string", "message": "string"}
_FINALIZERS: Final[Shape] = {
    "add": [{"value": "string"}], "remove": [{"value": "string"}], "empty": "bool",
}  # fmt: skip
_USER: Final[Shape] = {"username": "string"}
_PATCH: Final[Shape] = {
    "subresource": "string", "root": "string", "template": "string", "type": "string",
    "impersonation": _USER,
}  # fmt: skip
_APPLY: Final[Shape] = {
    "subresource": "string", "template": "string", "type": "string", "impersonation": _USER,
}  # fmt: skip
STAGE: Final[Shape] = {
    "apiVersion": "string",
    "kind": "string",
    "metadata": "any",
    "status": "any",
    "spec": {
        "resourceRef": {"apiGroup": "string", "kind": "string"},
        "selector": {
            "matchLabels": "strings",
            "matchAnnotations": "strings",
            "matchExpressions": [{"cel": _CEL, "jq": _SELECTOR_JQ, **_SELECTOR_JQ}],
        },
        "weight": "integer",
        "weightFrom": _FROM,
        "delay": {
            "durationMilliseconds": "integer",
            "durationFrom": _FROM,
            "jitterDurationMilliseconds": "integer",
            "jitterDurationFrom": _FROM,
        },
        "next": {
            "event": _EVENT,
            "finalizers": _FINALIZERS,
            "delete": "bool",
            "patches": [_PATCH],
            "statusTemplate": "string",
            "statusSubresource": "string",
            "statusPatchAs": _USER,
        },
        "steps": [
            {
                "patch": _PATCH,
                "event": _EVENT,
                "finalizers": _FINALIZERS,
                "delete": "bool",
                "apply": _APPLY,
            }
        ],
        "immediateNextStage": "bool",
    },
}


class StageError(LoadError):
    """A Stage cannot be read or executed; the message begins with file and line."""


class FieldsError(Exception):
    """The field at `path` is unknown or has a wrong value."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def check(value: object, shape: Shape = STAGE, path: tuple[str | int, ...] = ()) -> None:
    """Check the names and types of a document's fields; null counts as missing.

    Raises FieldsError.
    """
    if value is None:
        return
    if isinstance(shape, str):
        if not _fits(value, shape):
            raise FieldsError(path, f"expected {_EXPECTED[shape]}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise FieldsError(path, "expected a list")
        for index, item in enumerate(value):
            check(item, shape[0], (*path, index))
    else:
        if not isinstance(value, dict):
            raise FieldsError(path, "expected an object")
        for name, item in value.items():
            if name not in shape:
                raise FieldsError((*path, name), "no such field")
            check(item, shape[name], (*path, name))


_EXPECTED: Final = {
    "string": "a string", "integer": "a whole number that is not negative", "bool": "true or false",
    "strings": "an object of strings", "any": "anything",
}  # fmt: skip


def _fits(value: object, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind == "strings":
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return True


def line_of(node: yaml.Node | None, path: tuple[str | int, ...], *, content: bool = False) -> int:
    """Return the line of a field, or with `content` that of its text's start; from 1."""
    line = 1
    for part in path:
        child = _child(node, part)
        if child is None:
            break
        node, line = child
    if content and isinstance(node, yaml.ScalarNode):
        return node.start_mark.line + (2 if node.style in ("|", ">") else 1)
    return line


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1
    return None


def shown(path: tuple[str | int, ...]) -> str:
    """Return a path as messages show it: spec.steps[0].patch."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def choice(value: str, options: tuple[str, ...], path: tuple[str | int, ...]) -> str:
    """Return the value if it is one of the options. Raises FieldsError."""
    if value not in options:
        wanted = ", ".join(one for one in options if one)
        raise FieldsError(path, f"expected one of {wanted}, not {quoted(value)}")
    return value
