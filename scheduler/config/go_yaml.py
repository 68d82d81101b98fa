"""Read the scalars of YAML as Kubernetes does: by go-yaml, then as JSON.

YAML 1.1 in go-yaml is not PyYAML's: `yes`, `on` and `y` are true, `010` is eight, `0o17` and `1e3`
are integers, dates and `1:30` are text.
Source: `resolve.go` of go.yaml.in/yaml/v2, `YAMLToJSON` of sigs.k8s.io/yaml.
"""

from __future__ import annotations

import base64
import math
import re
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from scheduler.api.strconv import go_integer

if TYPE_CHECKING:
    from collections.abc import Mapping

Scalar: TypeAlias = str | int | float | bool | None

#: libyaml's loader where PyYAML has it: many times faster than the one in Python.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: The prefix of the tags that YAML itself defines.
STANDARD_TAG: Final = "tag:yaml.org,2002:"
#: The key of a mapping whose value is merged into it.
MERGE: Final = "<<"

_WORDS: Final[Mapping[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES"), True),
    **dict.fromkeys(("true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO"), False),
    **dict.fromkeys(("false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
#: The tags that a value may have, by its type.
_TAGS: Final[Mapping[type, tuple[str, ...]]] = {
    str: ("str",),
    int: ("int", "float"),
    float: ("float",),
    bool: ("bool",),
    NoneType: ("null",),
}
_RESOLVED_TAGS: Final = frozenset(("int", "float", "bool", "null"))
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")
_LAST_OF_NUMBER: Final = frozenset("0123456789abcdefABCDEF._")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BETWEEN_DIGITS: Final = re.compile("(?<=[0-9])_(?=[0-9])")
_UINT64_MAX: Final = 2**64 - 1
_INT64_MIN: Final = -(2**63)
#: JSON integers of this size and more are kept as floats.
_WHOLE_FLOAT_MAX: Final = 2.0**63


def resolve(text: str) -> Scalar:
    """Return the value of a plain (unquoted) scalar in go-yaml."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBER or text[-1] not in _LAST_OF_NUMBER:
        return text
    if text[0] == ".":
        plain = _BETWEEN_DIGITS.sub("", text)
    else:
        plain = text.replace("_", "")
        if (integer := _integer(plain)) is not None:
            return integer
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    return text if math.isinf(number) else number


def _integer(text: str) -> int | None:
    number = go_integer(text)
    return number if number is not None and _INT64_MIN <= number <= _UINT64_MAX else None


def json_scalar(text: str, tag: str = "") -> Scalar:
    """Return the value in JSON of a plain scalar, or of any scalar with a tag.

    A float without a fraction is an integer in JSON. Raises ValueError for a value that JSON does
    not have, or that its tag does not allow.
    """
    value = _tagged(text, tag.removeprefix(STANDARD_TAG)) if tag else resolve(text)
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a JSON value")
    is_whole = value.is_integer() and abs(value) < _WHOLE_FLOAT_MAX
    return int(value) if is_whole else value


def _tagged(text: str, tag: str) -> Scalar:
    if tag == "binary":
        return _decoded(text)
    if tag not in _RESOLVED_TAGS:
        return text
    value = resolve(text)
    tags = _TAGS[type(value)]
    if tag not in tags:
        raise ValueError(f"cannot decode !!{tags[0]} `{text}` as a !!{tag}")
    return value


def _decoded(text: str) -> str:
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise ValueError("!!binary value contains invalid base64 data") from error
    return raw.decode(errors="replace")


def json_key(key: object) -> str:
    """Return a key of a mapping as in JSON, where all keys are strings. Raises ValueError."""
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case None:
            raise ValueError("a mapping key must not be null")
    raise ValueError("a mapping key must be a scalar")
