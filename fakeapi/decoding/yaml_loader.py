"""YAML as Go's library reads it: which plain scalars are numbers, booleans, or mere text.

Python's library follows YAML 1.1 to the letter, in which `12:30` is 750 and `1e3` a text.
Source: resolve.go of go.yaml.in/yaml/v2 2.4.3; what it makes of a value depends on nothing else.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

__all__ = ["YamlLoader"]

_TAG: Final = "tag:yaml.org,2002:"
#: A timestamp is a string, as it is in JSON, and so is a lone `=`.
_RESOLVED_HERE: Final = {f"{_TAG}{name}" for name in ("int", "float", "timestamp", "value")}
_STARTS_OF_NUMBERS: Final = list("0123456789+-")
_WHOLE: Final = re.compile(
    r"[-+]?(?:0[bB][01_]+|0[oO][0-7_]+|0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)$", re.ASCII
)
_FLOAT: Final = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    re.ASCII,
)
_BASES: Final = {"0b": 2, "0o": 8, "0x": 16}


#: The quicker one where PyYAML has it, for whom all scalars are alike.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlLoader(SAFE_LOADER):  # type: ignore[misc]
    """Safe YAML whose plain scalars mean what they mean to kube-apiserver."""


def _whole(loader: YamlLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    plain = text.replace("_", "")
    digits = plain.lstrip("+-").lower()
    base = _BASES.get(digits[:2], 8 if digits[:1] == "0" else 10)
    try:
        value = int(digits[2:] if digits[:2] in _BASES else digits, base)
    except ValueError:  # 08, or too long to be read
        return _float(loader, node)
    value = -value if plain.startswith("-") else value
    if -(2**63) <= value < 2**64:
        return value
    return text if digits[:2] in _BASES else _float(loader, node)


def _float(loader: YamlLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    plain = text.replace("_", "").lower()
    if plain.endswith((".inf", ".nan")):
        return float(plain.replace(".", ""))
    value = float(plain)
    return text if math.isinf(value) else value


YamlLoader.yaml_implicit_resolvers = {
    mark: [(tag, pattern) for tag, pattern in resolvers if tag not in _RESOLVED_HERE]
    for mark, resolvers in YamlLoader.yaml_implicit_resolvers.items()
}
YamlLoader.add_implicit_resolver(f"{_TAG}int", _WHOLE, _STARTS_OF_NUMBERS)
YamlLoader.add_implicit_resolver(f"{_TAG}float", _FLOAT, [*_STARTS_OF_NUMBERS, "."])
# Single letters are booleans, too.
YamlLoader.add_implicit_resolver(f"{_TAG}bool", re.compile("[yYnN]$"), list("yYnN"))
YamlLoader.bool_values = {**YamlLoader.bool_values, "y": True, "n": False}
YamlLoader.add_constructor(f"{_TAG}int", _whole)
YamlLoader.add_constructor(f"{_TAG}float", _float)
