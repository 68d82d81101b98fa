"""JSON and YAML texts to JSON values, as kube-apiserver's libraries read them.

YAML: Go's library differs from YAML 1.1 (`12:30` is a string, `1e3` a number). JSON: a byte that is
not UTF-8, and half of a surrogate pair, become U+FFFD; errors have the text of `msgspec`.

Depth and aliases are limited before a value is built: a recursive library (libyaml's binding is
one) crashes on deep documents, and nine lines of aliases to aliases make gigabytes. Upstream's
limit of depth is 10,000, which Python's stack does not hold. Sources: resolve.go and decode.go
("document contains excessive aliasing") of go.yaml.in/yaml/v2 2.4.3, Go's encoding/json ("exceeded
max depth").
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import yaml

from fakeapi.types import gotext
from fakeapi.types.limits import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.limits import Limits

#: An object or list costs about as much as so many other values.
CONTAINER_VALUES: Final = 5
#: Smaller texts cannot be wide enough to matter.
_NARROW_BYTES: Final = 16 * 1024
#: Characters that open levels without a bracket: indentation, `- - -`, `? ? ?`.
_RUNS: Final = re.compile(rb"[ \t?\-]{2,}")
#: One of these stands before each entry of a map or list.
_BEFORE_NODES: Final = (b"-", b"?", b":", b",", b"[", b"{")
_OTHER_ENCODINGS: Final = (b"\xff\xfe", b"\xfe\xff")
#: Below these numbers no share of aliases is excessive.
_REPEATED_MIN: Final = 100
_NODES_MIN: Final = 1000
#: Up to the first number of nodes 99 % may be aliases, from the second on 10 %.
_NODES_FREE: Final = 400_000
_NODES_STRICT: Final = 4_000_000
_SHARE_FREE: Final = 0.99
_SHARE_STRICT: Final = 0.10
#: Go writes a whole number below this without an exponent.
_WITHOUT_EXPONENT: Final = 1e21

#: Bytes that YAML forbids, or reads in another way, in a text that is also JSON.
_ONLY_IN_JSON: Final = (b"\\", b"\t", b"\x7f")
_STRAY_BYTE: Final = re.compile("[\udc80-\udcff]")
#: An escaped character: a pair of surrogates, half of one (the group), or any other.
_ESCAPED: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_TOO_DEEP_FOR_LIBYAML: Final = "exceeded maximum nesting depth"
_decode = msgspec.json.Decoder().decode


class NestingError(ValueError):
    """A document that is too deep or too wide, or has too many aliases."""


def load_json(raw: bytes, limits: Limits = DEFAULT) -> object:
    """Return the JSON value of a client's text. Raises ValueError."""
    try:
        try:
            value = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = _decode(_with_replacement_characters(raw))
    except RecursionError as error:
        raise NestingError(too_deep(limits)) from error
    if len(raw) > min(
        _NARROW_BYTES, limits.max_values // CONTAINER_VALUES, 4 * limits.max_path_length
    ):
        check_width(value, limits)
    if raw.count(b"{") + raw.count(b"[") > limits.max_depth:
        check_depth(value, limits)
    return value


def too_deep(limits: Limits) -> str:
    """Return the error text for a value with too many levels."""
    return f"exceeded max depth of {limits.max_depth}"


def check_width(value: object, limits: Limits = DEFAULT) -> None:
    """Check the number of values, and the keys above them. Raises NestingError.

    An object or list counts as `CONTAINER_VALUES`.
    """
    count, waiting = 1, [(value, 0)]
    while waiting:
        container, length = waiting.pop()
        if length > limits.max_path_length:
            raise NestingError(
                f"exceeded max length of {limits.max_path_length} of the path of a field"
            )
        if isinstance(container, dict):
            count += len(container) + CONTAINER_VALUES - 1
            waiting += [
                (item, length + len(key))
                for key, item in container.items()
                if isinstance(item, dict | list)
            ]
        elif isinstance(container, list):
            count += len(container) + CONTAINER_VALUES - 1
            waiting += [(item, length) for item in container if isinstance(item, dict | list)]
        if count > limits.max_values:
            raise NestingError(f"exceeded max number of {limits.max_values} values")


def _with_replacement_characters(raw: bytes) -> bytes:
    text = _STRAY_BYTE.sub("\ufffd", raw.decode(errors="surrogateescape"))
    return _ESCAPED.sub(lambda found: b"\\ufffd" if found[1] else found[0], text.encode())


class Yaml(NamedTuple):
    """The JSON value of a document; `repeats_keys` is False if no mapping has a key twice."""

    value: object
    repeats_keys: bool = True


def load_yaml(raw: bytes, limits: Limits = DEFAULT) -> Yaml:
    """Return a client's first YAML document. Raises ValueError with one line."""
    if raw[:1] == b"{" and raw.isascii() and not any(mark in raw for mark in _ONLY_IN_JSON):
        # Most clients send JSON, which is read much faster as such.
        with contextlib.suppress(ValueError):
            return Yaml(as_json(load_json(raw, limits)))
    try:
        _check_yaml(raw, limits, nodes_max=limits.max_values)
        loader = YamlLoader(raw)
        try:
            value = as_json(loader.get_data()) if loader.check_data() else None
        finally:
            loader.dispose()
        check_width(value, limits)
        return Yaml(value, loader.repeats_keys)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_explained(error)) from error


def load_yaml_documents(raw: bytes) -> list[object]:
    """Return the JSON values of a stream of YAML documents. Raises ValueError with one line."""
    try:
        _check_yaml(raw, DEFAULT)
        return [as_json(document) for document in yaml.load_all(raw, YamlLoader)]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_explained(error)) from error


def _explained(error: Exception) -> str:
    """Return an error of a YAML text as one line, with the place in the text."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        return ": ".join(part for part in (place, error.context, error.problem) if part)
    if isinstance(error, yaml.reader.ReaderError):
        return f"byte {error.position} is not UTF-8 text: {error.reason}"
    return " ".join(str(error).split())


def as_json(value: object) -> object:
    """Return a YAML value as JSON: keys become strings. Raises ValueError for bytes and NaN."""
    if isinstance(value, dict):
        return {
            key if type(key) is str else _key(key, item): (
                item if type(item) is str else as_json(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < _WITHOUT_EXPONENT else value
    raise ValueError(f"a {type(value).__name__} is no JSON value")


def _key(key: object, item: object) -> str:
    if key is None:
        shown = gotext.quoted(item) if isinstance(item, str) else item
        raise ValueError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}")
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


_TAG: Final = "tag:yaml.org,2002:"
#: Tags with another pattern than PyYAML's; timestamps and a single `=` are strings.
_OWN_TAGS: Final = {f"{_TAG}{name}" for name in ("int", "float", "timestamp", "value")}
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
#: libyaml's loader where PyYAML has it; all its scalars are strings.
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlLoader(SAFE_LOADER):  # type: ignore[misc]
    """Safe YAML; plain scalars have the types that Go's library gives them."""

    repeats_keys = False

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as PyYAML calls it
        """Return the mapping, and note if it has a key twice."""
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        self.repeats_keys |= len(made) < len(node.value)
        return made


def _whole(loader: YamlLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    plain = text.replace("_", "")
    digits = plain.lstrip("+-").lower()
    base = _BASES.get(digits[:2], 8 if digits[:1] == "0" else 10)
    try:
        value = int(digits[2:] if digits[:2] in _BASES else digits, base)
    except ValueError:  # 08, or more digits than int() reads
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
    mark: [(tag, pattern) for tag, pattern in resolvers if tag not in _OWN_TAGS]
    for mark, resolvers in YamlLoader.yaml_implicit_resolvers.items()
}
YamlLoader.add_implicit_resolver(f"{_TAG}int", _WHOLE, _STARTS_OF_NUMBERS)
YamlLoader.add_implicit_resolver(f"{_TAG}float", _FLOAT, [*_STARTS_OF_NUMBERS, "."])
# y and n are booleans in Go's library.
YamlLoader.add_implicit_resolver(f"{_TAG}bool", re.compile("[yYnN]$"), list("yYnN"))
YamlLoader.bool_values = {**YamlLoader.bool_values, "y": True, "n": False}
YamlLoader.add_constructor(f"{_TAG}int", _whole)
YamlLoader.add_constructor(f"{_TAG}float", _float)


def check_depth(value: object, limits: Limits) -> None:
    """Check the levels of a JSON value. Raises NestingError."""
    level = [value]
    for _ in range(limits.max_depth):
        below: list[object] = []
        for container in level:
            if isinstance(container, dict):
                below += [item for item in container.values() if isinstance(item, dict | list)]
            elif isinstance(container, list):
                below += [item for item in container if isinstance(item, dict | list)]
        if not below:
            return
        level = below
    raise NestingError(too_deep(limits))


def _check_yaml(raw: bytes, limits: Limits, *, nodes_max: int = 0) -> None:
    """Check depth, aliases, and the number of nodes unless any will do.

    Raises NestingError; yaml.YAMLError for a text that is not YAML.
    """
    is_wide = 0 < nodes_max < 2 * sum(map(raw.count, _BEFORE_NODES))
    if is_wide or _may_nest(raw, limits) or (b"*" in raw and b"&" in raw):
        _Survey(limits, nodes_max).of(raw)


def _may_nest(raw: bytes, limits: Limits) -> bool:
    """True if a document may be too deep: a cheap upper bound of its depth."""
    if raw.startswith(_OTHER_ENCODINGS):
        return True
    brackets = raw.count(b"{") + raw.count(b"[")
    # A list may stand in the column of the field that holds it: two levels for each column.
    return brackets + 2 * max(map(len, _RUNS.findall(raw)), default=0) >= limits.max_depth


@dataclasses.dataclass(slots=True)
class _Node:
    """A node with its aliases written out: the numbers of nodes, aliased nodes and levels."""

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
    """Checks a stream by its events, without recursion."""

    def __init__(self, limits: Limits, nodes_max: int) -> None:
        self._limits = limits
        self._nodes_max = nodes_max
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}

    def of(self, raw: bytes) -> None:
        """Check a text. Raises NestingError; yaml.YAMLError for a text that is not YAML."""
        try:
            self._check_events(yaml.parse(raw, SAFE_LOADER))
        except yaml.MarkedYAMLError as error:
            # libyaml has a limit of its own since 0.2.6, and it reads ahead of its events.
            if _TOO_DEEP_FOR_LIBYAML in (error.problem or ""):
                raise NestingError(f"yaml: {too_deep(self._limits)}") from error
            raise

    def _check_events(self, events: Iterable[yaml.Event]) -> None:
        nodes = 0
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                is_container = isinstance(event, yaml.CollectionStartEvent)
                nodes += CONTAINER_VALUES if is_container else 1
                self._check_number(nodes)
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
                self._check_number(self._open[0].nodes)

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

    def _check_number(self, nodes: int) -> None:
        if 0 < self._nodes_max < nodes:
            raise NestingError(f"yaml: exceeded max number of {self._limits.max_values} values")

    def _check_depth(self, levels: int) -> None:
        if levels > self._limits.max_depth:
            raise NestingError(f"yaml: {too_deep(self._limits)}")


def _check_share(document: _Node) -> None:
    nodes, repeated = document.nodes, document.repeated
    beyond = min(1.0, max(0, nodes - _NODES_FREE) / (_NODES_STRICT - _NODES_FREE))
    share = _SHARE_FREE - beyond * (_SHARE_FREE - _SHARE_STRICT)
    if repeated > _REPEATED_MIN and nodes > _NODES_MIN and repeated > share * nodes:
        raise NestingError("yaml: document contains excessive aliasing")
