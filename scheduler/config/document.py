"""Parse the text of a configuration file into plain JSON values.

A text that starts with `{` is JSON, any other is YAML. Of several YAML documents only the first is
read, as upstream does. Keys that appear twice in a mapping are reported with their full path;
mappings from YAML are sorted by key, the order of upstream's error texts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from scheduler.api.field import child_path
from scheduler.config.go_yaml import MERGE, Scalar, json_key, json_scalar
from scheduler.config.types import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.config.types import Json

#: Limit of the values in a document: a few nested aliases can expand to billions.
VALUES_MAX: Final = 200_000

_PLAIN: Final = ""


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
    """Gives every plain scalar an empty tag: `json_scalar` resolves it."""


_Loader.yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}


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
            if key_node.tag == _PLAIN and key_node.value == MERGE:
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
    try:
        return json_key(_scalar(node) if isinstance(node, yaml.nodes.ScalarNode) else node)
    except ValueError as error:
        raise _error(node, str(error)) from error


def _scalar(node: yaml.nodes.ScalarNode) -> Scalar:
    try:
        return json_scalar(node.value, node.tag)
    except ValueError as error:
        raise _error(node, str(error)) from error


def _error(node: yaml.nodes.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
