"""How deep a value may nest and how much YAML's aliases may repeat, before anything is built of it.

A library that follows a document by recursion, as libyaml's binding does in C, dies of one that is
deep enough, and nine lines of aliases to aliases stand for gigabytes. The words are upstream's; its
bound on depth is 10,000, which Go's stacks bear and Python's do not. Sources: go.yaml.in/yaml/v2
(decode.go, "document contains excessive aliasing"), Go's encoding/json ("exceeded max depth").
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

import yaml

from fakeapi.decoding.yaml_loader import SAFE_LOADER

DEPTH_MAX: Final = 200
TOO_DEEP: Final = f"exceeded max depth of {DEPTH_MAX}"
#: What can open one level after another without a bracket: indentation, `- - -`, `? ? ?`.
_RUNS: Final = re.compile(rb"[ \t?\-]{2,}")
_OTHER_ENCODINGS: Final = (b"\xff\xfe", b"\xfe\xff")
#: Below these numbers nothing is excessive.
_REPEATED_MIN: Final = 100
_NODES_MIN: Final = 1000
#: Up to so many nodes nearly all may be repeated, from so many on a tenth.
_NODES_FREE: Final = 400_000
_NODES_STRICT: Final = 4_000_000
_SHARE_FREE: Final = 0.99
_SHARE_STRICT: Final = 0.10


class NestingError(ValueError):
    """A document nests or repeats too much; the message is upstream's."""


def is_too_deep(raw: bytes, value: object) -> bool:
    """Whether the JSON value in those bytes nests deeper than can be worked with."""
    return raw.count(b"{") + raw.count(b"[") > DEPTH_MAX and nests_too_deep(value)


def nests_too_deep(value: object) -> bool:
    """Whether a value that was put together step by step nests deeper than can be worked with."""
    level = [value]
    for _ in range(DEPTH_MAX):
        below: list[object] = []
        for container in level:
            if isinstance(container, dict):
                below += [item for item in container.values() if isinstance(item, dict | list)]
            elif isinstance(container, list):
                below += [item for item in container if isinstance(item, dict | list)]
        if not below:
            return False
        level = below
    return True


def check_yaml(raw: bytes) -> None:
    """Refuse YAML that cannot be borne. Raises NestingError, yaml.YAMLError for what is no YAML."""
    if _may_nest(raw) or (b"*" in raw and b"&" in raw):
        _Survey().of(raw)


def _may_nest(raw: bytes) -> bool:
    """Whether a document could be too deep; a bound that costs little."""
    if raw.startswith(_OTHER_ENCODINGS):
        return True
    brackets = raw.count(b"{") + raw.count(b"[")
    # A list may stand in the column of the field that holds it: two levels for each column.
    return brackets + 2 * max(map(len, _RUNS.findall(raw)), default=0) >= DEPTH_MAX


@dataclasses.dataclass(slots=True)
class _Node:
    """A node, its aliases written out: how many nodes, how many repeated, how many levels."""

    anchor: str | None
    nodes: int = 1
    repeated: int = 0
    levels: int = 1

    def take(self, child: _Node) -> None:
        """Count a child."""
        self.nodes += child.nodes
        self.repeated += child.repeated
        self.levels = max(self.levels, child.levels + 1)


class _Survey:
    """One pass over the events of a stream, which need no recursion."""

    def __init__(self) -> None:
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}

    def of(self, raw: bytes) -> None:
        """Raises NestingError."""
        for event in yaml.parse(raw, SAFE_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                self._open, self._anchors = [_Node(None)], {}
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open.append(_Node(event.anchor))
                self._check_depth(len(self._open) - 1)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._add(self._open.pop())
            elif isinstance(event, yaml.ScalarEvent):
                self._add(_Node(event.anchor, levels=0))
            elif isinstance(event, yaml.AliasEvent):
                self._repeat(str(event.anchor))
            elif isinstance(event, yaml.DocumentEndEvent):
                _check_share(self._open[0])

    def _add(self, node: _Node) -> None:
        if node.anchor is not None:
            self._anchors[node.anchor] = node
        self._open[-1].take(node)

    def _repeat(self, anchor: str) -> None:
        if any(node.anchor == anchor for node in self._open):
            raise NestingError(f"yaml: anchor '{anchor}' value contains itself")
        named = self._anchors.get(anchor)
        if named is None:
            raise NestingError(f"yaml: unknown anchor '{anchor}' referenced")
        self._check_depth(len(self._open) - 1 + named.levels)
        self._open[-1].take(_Node(None, named.nodes + 1, named.nodes, named.levels))

    @staticmethod
    def _check_depth(levels: int) -> None:
        if levels > DEPTH_MAX:
            raise NestingError(f"yaml: {TOO_DEEP}")


def _check_share(document: _Node) -> None:
    nodes, repeated = document.nodes, document.repeated
    beyond = min(1.0, max(0, nodes - _NODES_FREE) / (_NODES_STRICT - _NODES_FREE))
    share = _SHARE_FREE - beyond * (_SHARE_FREE - _SHARE_STRICT)
    if repeated > _REPEATED_MIN and nodes > _NODES_MIN and repeated > share * nodes:
        raise NestingError("yaml: document contains excessive aliasing")
