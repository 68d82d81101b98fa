"""The answers 500 that are upstream's own: plain Go errors, for which it has no better code.

Each shape is on record: tests/fakeapi/exchanges has an answer of the real server that matches it,
and test_fuzz.py checks it. Any other answer 500 is a defect of this server.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

__all__ = ["SHAPES", "shape_of", "status_in"]

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_UINT: Final = rf"strconv\.ParseUint: parsing {_QUOTED}: (?:invalid syntax|value out of range)"
_PATH: Final = r"(?:\..*?)"
_EXPECTED: Final = (
    r"expected (?:string|map|list|boolean|any scalar|numeric \(int or float\)), got .*"
)
_PROBLEM: Final = (
    rf"{_PATH}: (?:field not declared in schema|{_EXPECTED}|"
    r"duplicate entries for key \[.*\]|"
    r"element [0-9]+: (?:not supported: )?associative list with(?:out keys| keys| lists) .*)"
)
_OBJECT: Final = r"\(.*/.*; .*/v[12][a-z0-9]*, Kind=[A-Za-z]+\)"
_TARGET_KIND: Final = (
    rf'target\.kind: Unsupported value: {_QUOTED}: supported values: "Node", "<empty>"'
)
_CONVERTED: Final = (
    r"json: cannot unmarshal [a-z]+ (?:.* )?into Go value of type (?:int32|string)|"
    r"boolean or JSON schema expected|"
    r"json: cannot unmarshal [a-z]+ (?:.* )?into Go struct field JSONSchemaProps\..* of type .*|"
    r"error decoding from json: illegal base64 data at input byte [0-9]+|"
    rf"parsing time {_QUOTED} as {_QUOTED}: cannot parse {_QUOTED} as {_QUOTED}|"
    r"quantities must match the regular expression .*|"
    r"cannot convert float64 to int(?:32|64)"
)
#: What each is about, and its message.
SHAPES: Final[dict[str, str]] = {
    "a version of a read that is no number": rf"resourceVersion: Invalid value: {_QUOTED}: {_UINT}",
    "a version of an update that is no number": _UINT,
    "a new object with a version": "resourceVersion should not be set on objects to be created",
    "a binding to no node": (
        rf"{_TARGET_KIND}|target\.name: Required value|"
        rf"\[{_TARGET_KIND}, target\.name: Required value\]"
    ),
    "an applied object of the wrong type": (
        rf"failed to create typed patch object {_OBJECT}: "
        rf"(?:{_PROBLEM}|errors:(?:\n  {_PROBLEM})+)"
    ),
    "an applied value that its field does not hold": (
        rf"failed to convert new object {_OBJECT} to proper version: "
        rf"unable to convert unstructured object to .*: (?:{_CONVERTED})"
    ),
    "an applied Scale in a version without one": (
        rf"failed to convert new object {_OBJECT} to proper version: "
        r"request to convert CR to an invalid group/version: .*"
    ),
    "an element without the key that merges it": (
        r"map: map\[.*\] does not contain declared merge key: [A-Za-z]+"
    ),
    "a pod under several budgets": (
        r"This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        r"support\."
    ),
    "a scale of an object that says no number": (
        r'Internal error occurred: the spec replicas field ".*" does not exist'
    ),
}
#: Not on record: after the sources, and tested in writes/test_strategic.py and test_patching.py.
_BY_SOURCE: Final = {
    "a directive for a field that the type does not have": (
        r'unable to find api field in struct [A-Za-z]+ for the json field ".*"'
    ),
}
_MATCHES: Final = {
    name: re.compile(shape, re.DOTALL).fullmatch for name, shape in (SHAPES | _BY_SOURCE).items()
}


def status_in(body: bytes) -> dict[str, Any]:
    """The Status in an answer, JSON or YAML. Raises ValueError if there is none."""
    try:
        status = json.loads(body) if body[:1] == b"{" else yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(status, dict):
        raise ValueError("it is no object")
    return status


def shape_of(status: dict[str, Any]) -> str:
    """The shape of a Status of code 500, empty if upstream has no such answer."""
    message = str(status.get("message"))
    found = [name for name, matches in _MATCHES.items() if matches(message)]
    has_reason = message.startswith("Internal error occurred: ")
    is_whole = status.get("reason", "") == ("InternalError" if has_reason else "")
    return found[0] if found and is_whole else ""
