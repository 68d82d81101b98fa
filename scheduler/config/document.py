"""Parse the text of a configuration file into plain JSON values.

A text that starts with `{` is JSON, any other is YAML. Of several YAML documents only the first is
read, as upstream does. Keys that appear twice in a mapping are reported with their full path;
mappings from YAML are sorted by key, the order of upstream's error texts.

Plain (unquoted) YAML scalars are resolved here, not by PyYAML: upstream uses go-yaml, whose YAML
1.1 differs. `yes`, `on` and `y` are true, `010` is eight, `0o17` and `1e3` are numbers, dates and
`1:30` are text. Source: go-yaml v2 `resolve.go`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from scheduler.api.field import child_path
from scheduler.config.types import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.config.types import Json

#: Limit of the values in a document: a few nested aliases can expand to billions.
VALUES_MAX: Final = 200_000

_PLAIN: Final = "plain"
_STANDARD: Final = "tag:yaml.org,2002:"
_STR: Final = f"{_STANDARD}str"
_BINARY: Final = f"{_STANDARD}binary"
_MERGE: Final = "<<"

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES"), True),
    **dict.fromkeys(("true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO"), False),
    **dict.fromkeys(("false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NOT_A_NUMBER: Final = re.compile(r"\.(nan|NaN|NAN)")
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
#: An integer longer than this fits no 64 bits, and is read as a float.
_INTEGER_LENGTH_MAX: Final = 70
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_UINT64_MAX: Final = 2**64 - 1
_INT64_MIN: Final = -(2**63)
#: Floats from here on are not converted to integers.
_WHOLE_FLOAT_MAX: Final = 2.0**63


@dataclass
class Document:
    """A parsed text."""

    value: object = None
    #: Paths of the keys that appear more than once.
    duplicates: list[str] = field(default_factory=list)


def parse_document(text: str) -> Document:
    """Parse JSON or YAML. Raises `ConfigError` naming the line and column of the mistake."""
    try:
        if text.lstrip().startswith("{"):
            return _parse_json(text)
        return _parse_yaml(text)
    except RecursionError as error:
        raise ConfigError("the document is nested too deeply") from error


class _Pairs(list[tuple[str, object]]):
    """A JSON object whose keys are not yet checked for duplicates."""


def _parse_json(text: str) -> Document:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"json: {position}: {error.msg}") from error
    except ValueError as error:
        raise ConfigError(f"json: {error}") from error
    document = Document()
    document.value = _from_json(pairs, "", document)
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def _from_json(value: object, path: str, document: Document) -> object:
    if isinstance(value, _Pairs):
        return _mapping(
            ((key, _from_json(item, child_path(path, key), document)) for key, item in value),
            path,
            document,
        )
    if isinstance(value, list):
        return [_from_json(item, f"{path}[{i}]", document) for i, item in enumerate(value)]
    return value


def _mapping(pairs: Iterable[tuple[str, object]], path: str, document: Document) -> Json:
    mapping: Json = {}
    for key, value in pairs:
        if key in mapping:
            document.duplicates.append(child_path(path, key))
        else:
            mapping[key] = value
    return mapping


class _Loader(yaml.SafeLoader):
    """Leave plain scalars unresolved, for `resolve_scalar`."""

    def resolve(self, kind: type[yaml.nodes.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.nodes.ScalarNode:
            return _PLAIN if implicit[0] else _STR
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return tag


def _parse_yaml(text: str) -> Document:
    document = Document()
    try:
        loader = _Loader(text)
        if loader.check_node() and (root := loader.get_node()) is not None:
            document.value = _YamlValues(document).value(root, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"yaml: {where}{error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        reason = f"character #x{error.character:04x} at position {error.position}"
        raise ConfigError(f"yaml: {reason}: {error.reason}") from error
    return document


class _YamlValues:
    """Convert the nodes of one document into values."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.nodes.Node, path: str) -> object:
        """Return the value of a node. Aliases are expanded; a recursive one is an error."""
        self._count += 1
        if self._count > VALUES_MAX:
            raise _error(node, "document contains excessive aliasing")
        if isinstance(node, yaml.nodes.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise _error(node, "anchor value contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.nodes.SequenceNode):
                return [self.value(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
            mapping = _mapping(self._pairs(node, path), path, self._document)
            return dict(sorted(mapping.items()))
        finally:
            self._open.discard(id(node))

    def _pairs(self, node: yaml.nodes.Node, path: str) -> Iterable[tuple[str, object]]:
        assert isinstance(node, yaml.nodes.MappingNode)
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == _MERGE:
                for merged in _merged_nodes(value_node):
                    yield from self._pairs(merged, path)
            else:
                key = _key(key_node)
                yield key, self.value(value_node, child_path(path, key))


def _merged_nodes(node: yaml.nodes.Node) -> list[yaml.nodes.Node]:
    nodes = list(node.value) if isinstance(node, yaml.nodes.SequenceNode) else [node]
    if not all(isinstance(merged, yaml.nodes.MappingNode) for merged in nodes):
        raise _error(node, "map merge requires map or sequence of maps as the value")
    return nodes


def _key(node: yaml.nodes.Node) -> str:
    if not isinstance(node, yaml.nodes.ScalarNode):
        raise _error(node, "a mapping key must be a scalar")
    key = _scalar(node)
    if key is None:
        raise _error(node, "a mapping key must not be null")
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _scalar(node: yaml.nodes.ScalarNode) -> str | int | float | bool | None:
    text: str = node.value
    if node.tag == _STR or not (node.tag == _PLAIN or node.tag.startswith(_STANDARD)):
        # Custom tags are ignored.
        return text
    if node.tag == _BINARY:
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except ValueError as error:
            raise _error(node, "!!binary value contains invalid base64 data") from error
    value = resolve_scalar(text)
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise _error(node, f"{text} is not a JSON value")
    return value


def _error(node: yaml.nodes.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar. A float without a fraction becomes an integer.

    Infinities and NaN are returned as floats, which JSON cannot represent.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBER:
        return text
    if _INFINITE.fullmatch(text) or _NOT_A_NUMBER.fullmatch(text):
        return float(text.replace(".", ""))
    plain = text if text.startswith(".") else text.replace("_", "")
    if (integer := _integer(plain)) is not None:
        return integer
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    if math.isinf(number):
        return text
    return int(number) if _is_whole(number) else number


def _is_whole(number: float) -> bool:
    return number.is_integer() and abs(number) < _WHOLE_FLOAT_MAX


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or len(text) > _INTEGER_LENGTH_MAX:
        return None
    kind = match.lastgroup
    assert kind is not None
    number = int(match["sign"] + match[kind], _BASES[kind])
    return number if _INT64_MIN <= number <= _UINT64_MAX else None
