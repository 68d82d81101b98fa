"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), leaving the original untouched.

The strategic merge patch has a module of its own, strategic.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import ApiError, BadRequest, Unprocessable

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

OPERATIONS_MAX: Final = 10_000
_INDEX = re.compile(r"0|[1-9]\d*", re.ASCII).fullmatch


class PatchTooLong(ApiError):
    """A JSON patch has more operations than upstream applies."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, count: int) -> None:
        super().__init__(
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{OPERATIONS_MAX}, got {count}"
        )


def merge_patch(original: object, patch: object) -> object:
    """Return the document with the patch merged in: null removes, objects merge, others replace."""
    if not isinstance(patch, dict):
        return patch
    result: Json = dict(original) if isinstance(original, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(original: object, operations: object) -> object:
    """Return the document after all operations. Raises ApiError if one does not apply."""
    if not isinstance(operations, list):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_MAX:
        raise PatchTooLong(len(operations))
    document = original
    for operation in operations:
        if not isinstance(operation, dict):
            raise BadRequest("error decoding patch: an operation is an object")
        document = _apply(document, operation)
    return document


def _apply(document: object, operation: Json) -> object:
    kind, path = operation.get("op"), _pointer(operation, "path")
    if kind == "add":
        return _added(document, path, _value(operation))
    if kind == "replace":
        _read(document, path)
        return _replaced(document, path, _value(operation))
    if kind == "remove":
        _read(document, path)
        return _removed(document, path)
    if kind == "test":
        if _read(document, path, missing=None) != operation.get("value"):
            raise Unprocessable
        return document
    if kind == "copy":
        return _added(document, path, _read(document, _pointer(operation, "from")))
    if kind == "move":
        source = _pointer(operation, "from")
        value = _read(document, source)
        return _added(_removed(document, source), path, value)
    raise Unprocessable


def _pointer(operation: Json, name: str) -> list[str]:
    """Return the tokens of a JSON pointer (RFC 6901)."""
    pointer = operation.get(name)
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise Unprocessable
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _value(operation: Json) -> object:
    if "value" not in operation:
        raise Unprocessable
    return operation["value"]


_REQUIRED: Final = object()


def _read(document: object, path: list[str], missing: object = _REQUIRED) -> object:
    """Return the value at a path, or the default. Raises Unprocessable without either."""
    for position, token in enumerate(path):
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and _INDEX(token) and int(token) < len(document):
            document = document[int(token)]
        elif missing is not _REQUIRED and position == len(path) - 1:
            return missing
        else:
            raise Unprocessable
    return document


def _added(document: object, path: list[str], value: object) -> object:
    if not path:
        return value
    token = path[0]
    if isinstance(document, dict):
        if len(path) > 1 and token not in document:
            raise Unprocessable
        return {**document, token: _added(document.get(token), path[1:], value)}
    if isinstance(document, list):
        if len(path) > 1:
            index = _index(document, token, len(document) - 1)
            inner = _added(document[index], path[1:], value)
            return [*document[:index], inner, *document[index + 1 :]]
        index = len(document) if token == "-" else _index(document, token, len(document))
        return [*document[:index], value, *document[index:]]
    raise Unprocessable


def _replaced(document: object, path: list[str], value: object) -> object:
    if not path:
        return value
    token = path[0]
    if isinstance(document, dict):
        return {**document, token: _replaced(document[token], path[1:], value)}
    assert isinstance(document, list)
    index = int(token)
    inner = _replaced(document[index], path[1:], value)
    return [*document[:index], inner, *document[index + 1 :]]


def _removed(document: object, path: list[str]) -> object:
    if not path:
        raise Unprocessable
    token = path[0]
    if isinstance(document, dict):
        if len(path) == 1:
            return {name: value for name, value in document.items() if name != token}
        return {**document, token: _removed(document[token], path[1:])}
    assert isinstance(document, list)
    index = int(token)
    if len(path) == 1:
        return [*document[:index], *document[index + 1 :]]
    inner = _removed(document[index], path[1:])
    return [*document[:index], inner, *document[index + 1 :]]


def _index(document: list[object], token: str, highest: int) -> int:
    if not _INDEX(token) or int(token) > highest:
        raise Unprocessable
    return int(token)
