"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), leaving the original untouched.

Source: pkg/endpoints/handlers/patch.go of k8s.io/apiserver v0.36.3 and evanphx/json-patch 4.13.

The strategic merge patch has a module of its own, strategic.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fakeapi.decoding.parsing import too_deep
from fakeapi.types.client_text import parse_int
from fakeapi.types.errors import ApiError, BadRequest, Unprocessable
from fakeapi.types.limits import DEFAULT
from fakeapi.types.objects import encode, same_json

if TYPE_CHECKING:
    from fakeapi.types.limits import Limits
    from fakeapi.types.objects import Json


class PatchTooLong(ApiError):
    """A JSON patch has more operations than upstream applies."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, count: int, count_max: int) -> None:
        super().__init__(
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{count_max}, got {count}"
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


def json_patch(original: Json, operations: object, limits: Limits = DEFAULT) -> object:
    """Return the document after all operations. Raises ApiError if an operation does not apply."""
    if not isinstance(operations, list):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > limits.json_patch_max_operations:
        raise PatchTooLong(len(operations), limits.json_patch_max_operations)
    document = _Document(original, limits)
    for operation in operations:
        if not isinstance(operation, dict):
            raise BadRequest("error decoding patch: an operation is an object")
        document.apply(operation)
    return document.root


class _Document:
    """A copy of a document, which operations change in place: no two places share a part of it."""

    def __init__(self, original: Json, limits: Limits) -> None:
        #: Holds the document as its only entry, so that each value has a container.
        self._holder: Json = {"": msgspec.json.decode(encode(original))}
        self._limits = limits
        self._copied_bytes = 0

    @property
    def root(self) -> object:
        return self._holder[""]

    def apply(self, operation: Json) -> None:
        """Apply one operation. Raises Unprocessable."""
        kind, path = operation.get("op"), _pointer(operation, "path")
        if kind == "add":
            self._add(path, _value(operation))
        elif kind == "replace":
            self._replace(path, _value(operation))
        elif kind == "remove":
            self._remove(path)
        elif kind == "test":
            if not same_json(self._tested(path), operation.get("value")):
                raise Unprocessable
        elif kind == "copy":
            self._add(path, self._copied(_pointer(operation, "from")))
        elif kind == "move":
            source = _pointer(operation, "from")
            value = self._read(source)
            self._remove(source)
            self._add(path, value)
        else:
            raise Unprocessable

    def _read(self, path: list[str]) -> object:
        value: object = self._holder
        for token in path:
            value = _child(value, token)
        return value

    def _add(self, path: list[str], value: object) -> None:
        container, token = self._read(path[:-1]), path[-1]
        if isinstance(container, dict):
            container[token] = value
        elif isinstance(container, list):
            index = len(container) if token == "-" else _index(token)
            if index > len(container):
                raise Unprocessable
            container.insert(index, value)
        else:
            raise Unprocessable

    def _replace(self, path: list[str], value: object) -> None:
        container, token = self._read(path[:-1]), path[-1]
        _child(container, token)
        if isinstance(container, dict):
            container[token] = value
        elif isinstance(container, list):
            container[int(token)] = value

    def _remove(self, path: list[str]) -> None:
        container, token = self._read(path[:-1]), path[-1]
        _child(container, token)
        if container is self._holder:
            raise Unprocessable
        if isinstance(container, dict):
            del container[token]
        elif isinstance(container, list):
            del container[int(token)]

    def _tested(self, path: list[str]) -> object:
        """Return the value at a path, None if its container does not have it."""
        container = self._read(path[:-1])
        try:
            return _child(container, path[-1])
        except Unprocessable:
            return None

    def _copied(self, path: list[str]) -> object:
        """Return a copy of a value. Raises Unprocessable if all copies are too large in sum."""
        try:
            encoded = encode(self._read(path))
        except RecursionError as error:
            raise BadRequest(f"error decoding patch: {too_deep(self._limits)}") from error
        self._copied_bytes += len(encoded)
        if 0 < self._limits.json_patch_max_copy_bytes < self._copied_bytes:
            raise Unprocessable
        return msgspec.json.decode(encoded)


def _pointer(operation: Json, name: str) -> list[str]:
    """Return the tokens of a JSON pointer (RFC 6901); the first is the document."""
    pointer = operation.get(name)
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise Unprocessable
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _value(operation: Json) -> object:
    if "value" not in operation:
        raise Unprocessable
    return operation["value"]


def _child(container: object, token: str) -> object:
    """Return a value in an object or a list. Raises Unprocessable if there is none."""
    if isinstance(container, dict) and token in container:
        return container[token]
    if isinstance(container, list) and _index(token) < len(container):
        return container[_index(token)]
    raise Unprocessable


def _index(token: str) -> int:
    """Return the index that a token stands for. Raises Unprocessable."""
    try:
        index = parse_int(token, bits=32, signed=False)
    except ValueError:
        raise Unprocessable from None
    if index is None or (token[0] == "0" and token != "0"):
        raise Unprocessable
    return index
