"""Field sets, in the form in which managedFields has them on the wire (FieldsV1).

A set is a tree of dicts by path element (paths.py). `{}` is a leaf and a member; `"."` marks an
inner node that is a member itself:

    {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}}}

has two members, the container and its image. The whole set `{}` is empty. Sets are never changed:
each operation makes a new one and shares the parts it can. Only `canonical` sorts elements.

Source: structured-merge-diff fieldpath/{set,serialize}.go of v6.3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from fakeapi.apply import paths
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.apply.types import Type

FieldSet: TypeAlias = "dict[str, FieldSet]"

#: A leaf; also the set without members.
LEAF: Final[FieldSet] = {}
_SELF: Final = paths.SELF
#: The size of all sets that are cached, as JSON, and of the largest.
_ALL_INTERNED_BYTES_MAX: Final = 16 * 1024 * 1024
_INTERNED_BYTES_MAX: Final = 64 * 1024


class _Interned:
    """Sets of which there is one object each."""

    def __init__(self) -> None:
        #: By their JSON, in order and as they came.
        self.by_json: dict[bytes, FieldSet] = {}
        #: By `id()`, which is unique while they are in here.
        self.by_id: dict[int, FieldSet] = {}
        self._size_bytes = 0

    def add(self, fields: FieldSet, *encoded: bytes) -> None:
        """Remember a set; forget all others once they are too many."""
        self._size_bytes += sum(map(len, encoded))
        if self._size_bytes > _ALL_INTERNED_BYTES_MAX:
            self.by_json.clear()
            self.by_id.clear()
            self._size_bytes = 0
        self.by_json.update(dict.fromkeys(encoded, fields))
        self.by_id[id(fields)] = fields


_interned: Final = _Interned()


def is_member(node: FieldSet) -> bool:
    """Return True if a node is in the set itself, not only something below it."""
    return not node or _SELF in node


def as_member(node: FieldSet | None) -> FieldSet:
    """Return the node as a member, with everything below it."""
    if not node:
        return LEAF
    return node if _SELF in node else {_SELF: LEAF, **node}


def of_path(path: tuple[str, ...]) -> FieldSet:
    """Return the set with one member. The empty path is not tracked."""
    node = LEAF
    for element in reversed(path):
        node = {element: node}
    return node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of either set."""
    if not left or left is right:
        return right
    if not right:
        return left
    return _union_below(left, right)


def _union_below(left: FieldSet, right: FieldSet) -> FieldSet:
    result = dict(left)
    for element, node in right.items():
        mine = result.get(element)
        result[element] = node if mine is None else _union_nodes(mine, node)
    return result


def _union_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    if not left:
        return as_member(right)
    if not right:
        return as_member(left)
    return _union_below(left, right)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of both sets."""
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == _SELF:
            continue
        below = intersection(node, other)
        if is_member(node) and is_member(other):
            result[element] = as_member(below)
        elif below:
            result[element] = below
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members of the first set that are not in the second."""
    return _without(left, right, recursive=False)


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the first set without the members of the second and everything below them."""
    return _without(left, right, recursive=True)


def _without(left: FieldSet, right: FieldSet, *, recursive: bool) -> FieldSet:
    if not right:
        return left
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if element == _SELF:
            continue
        if other is None:
            result[element] = node
            continue
        taken = is_member(other)
        if taken and recursive:
            continue
        below = _without(_below(node), other, recursive=recursive)
        if is_member(node) and not taken:
            result[element] = as_member(below)
        elif below:
            result[element] = below
    return result


def _below(node: FieldSet) -> FieldSet:
    """Return the set below a node."""
    if _SELF not in node:
        return node
    return {element: inner for element, inner in node.items() if element != _SELF}


def below(fields: FieldSet, element: str) -> FieldSet:
    """Return the set below one element."""
    node = fields.get(element)
    return _below(node) if node else LEAF


def has(fields: FieldSet, element: str) -> bool:
    """Return True if the element at the top of the set is a member."""
    node = fields.get(element)
    return node is not None and is_member(node)


def members(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all members in order, each level before the levels below."""
    elements = sorted((element for element in fields if element != _SELF), key=paths.order)
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        yield from members(fields[element], (*prefix, element))


def contains(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return True if the path is a member."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return node is not None and is_member(node)


def with_named_fields(fields: FieldSet, kind: Type | None) -> FieldSet:
    """Return the set with each struct field above a member as a member, too."""
    result: FieldSet = {}
    for element, node in fields.items():
        if not node:
            result[element] = node
            continue
        inner, is_declared = None, False
        if kind is not None and element[:2] == paths.FIELD and kind.map is not None:
            inner = kind.map.type_of(element[2:])
            is_declared = kind.map.declares(element[2:])
        elif kind is not None and element[:2] == paths.KEY and kind.list is not None:
            inner = kind.list.element
        kept = with_named_fields(node, inner)
        result[element] = as_member(kept) if is_declared else kept
    return result


def canonical(fields: FieldSet) -> FieldSet:
    """Return the set in order. Equal sets are one object while they are cached."""
    if id(fields) in _interned.by_id:
        return fields
    key = encode(fields)
    cached = _interned.by_json.get(key)
    if cached is not None:
        return cached
    ordered = _in_order(fields)
    if len(key) > _INTERNED_BYTES_MAX:
        return ordered
    in_order = encode(ordered)
    cached = _interned.by_json.get(in_order, ordered)
    _interned.add(cached, key, in_order)
    return cached


def _in_order(fields: FieldSet) -> FieldSet:
    if not fields:
        return LEAF
    result: FieldSet = {}
    if _SELF in fields:
        result[_SELF] = LEAF
    for element in sorted((name for name in fields if name != _SELF), key=paths.order):
        result[element] = _in_order(fields[element]) if fields[element] else LEAF
    return result


def is_canonical(value: object) -> bool:
    """Return True if `canonical` made this very object, and no client sent it."""
    return id(value) in _interned.by_id


def parse_cached(value: object) -> FieldSet:
    """Return `parse(value)`, without parsing for sets that `canonical` made. Raises PathError."""
    if isinstance(value, dict) and id(value) in _interned.by_id:
        return value
    return parse(value)


def parse(value: object) -> FieldSet:
    """Return the set in a FieldsV1 value, without elements of unknown kinds. Raises PathError."""
    if value is None:
        return LEAF
    if not isinstance(value, dict):
        raise paths.PathError("a set of fields is an object")
    return _below(_parsed(value))


def _parsed(value: object) -> FieldSet:
    result: FieldSet = {}
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == _SELF:
                result[_SELF] = LEAF
                continue
            element = paths.canonical(name)
            if element is not None:
                result[element] = _parsed(inner) if inner else LEAF
    if set(result) <= {_SELF}:
        return LEAF
    return result
