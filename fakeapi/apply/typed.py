"""Walk values by their types: the set of their fields, comparison, validation, removal.

A missing field is `ABSENT`; an explicit null is a value like any other. Merging is in merging.py.
Source: structured-merge-diff typed/{tofieldset,compare,validate,remove,helpers}.go.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fakeapi.apply import paths, sets
from fakeapi.apply.sets import LEAF, FieldSet
from fakeapi.types import gotext
from fakeapi.types.objects import same_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.apply.types import ListType, MapType, Type
    from fakeapi.types.objects import Json


class TypedError(ValueError):
    """A value does not fit its type; `str()` is upstream's text."""


class _Absent:
    """Marks a missing field."""


ABSENT: Final = _Absent()


class Branch(enum.Enum):
    """The type by which a value is walked."""

    MAP = "map"
    LIST = "list"
    SCALAR = "scalar"


def branch_of(kind: Type, value: object) -> Branch:
    """Return the branch of the value if the type allows it, else the type's first branch."""
    if type(value) is str and kind.scalar:
        return Branch.SCALAR
    if isinstance(value, dict):
        if kind.map is not None:
            return Branch.MAP
    elif isinstance(value, list):
        if kind.list is not None:
            return Branch.LIST
    elif value is not None and value is not ABSENT and kind.scalar:
        return Branch.SCALAR
    if kind.map is not None:
        return Branch.MAP
    return Branch.SCALAR if kind.scalar else Branch.LIST


def fields_of(value: object) -> Json:
    """Return the entries of a map, none for any other value."""
    return value if isinstance(value, dict) else {}


def items_of(value: object) -> list[object]:
    """Return the elements of a list, none for any other value."""
    return value if isinstance(value, list) else []


def element_of(kind: ListType, item: object) -> str:
    """Return the path element of an item of an associative list. Raises TypedError."""
    if not kind.keys:
        if isinstance(item, dict):
            raise TypedError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise TypedError("not supported: associative list with lists as elements")
        if item is None:
            raise TypedError("associative list without keys has an element that's an explicit null")
        return paths.value_element(item)
    if item is None:
        raise TypedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    if len(kind.keys) == 1:
        name = kind.keys[0]
        value = item.get(name)
        if isinstance(value, str):
            return paths.string_key_element(name, value)
    return _keyed_element(kind, item)


def _keyed_element(kind: ListType, item: Json) -> str:
    keys = {}
    for name in kind.keys:
        if name in item:
            keys[name] = item[name]
        elif name in kind.defaults:
            keys[name] = kind.defaults[name]
    if not keys:
        quoted = " ".join(f'"{name}"' for name in kind.keys)
        raise TypedError(
            f"associative list with keys has an element that omits all key fields [{quoted}] "
            "(and doesn't have default values for any key fields)"
        )
    return paths.key_element(keys)


def by_element(kind: ListType, value: object) -> dict[str, list[object]]:
    """Return the items of an associative list by element; several items are duplicates."""
    items: dict[str, list[object]] = {}
    for item in items_of(value):
        items.setdefault(element_of(kind, item), []).append(item)
    return items


def to_set(kind: Type, value: object) -> FieldSet:
    """Return the fields that an applier of this value owns. Raises TypedError."""
    return sets.below({"": _node(kind, value) or LEAF}, "")


def _node(kind: Type, value: object) -> FieldSet | None:
    branch = branch_of(kind, value)
    if branch is Branch.MAP:
        assert kind.map is not None
        return LEAF if kind.map.is_atomic else _map_node(kind.map, value)
    if branch is Branch.LIST:
        assert kind.list is not None
        return LEAF if kind.list.is_atomic else _list_node(kind.list, value)
    return LEAF


def _map_node(kind: MapType, value: object) -> FieldSet | None:
    result: FieldSet = {}
    fields, element = kind.fields, kind.element
    for name, item in fields_of(value).items():
        inner = fields.get(name, element)
        node = _node(inner, item) if inner is not None else LEAF
        if item is None or item == {} or name not in fields:
            node = sets.as_member(node)
        if node is not None:
            result[paths.FIELD + name] = node
    return result or None


def _list_node(kind: ListType, value: object) -> FieldSet | None:
    result: FieldSet = {}
    for element, items in by_element(kind, value).items():
        if len(items) > 1:
            result[element] = LEAF
        else:
            result[element] = sets.as_member(_node(kind.element, items[0]))
    return result or None


class Comparison(NamedTuple):
    """The differences between two values. A field is in one of the sets at most."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, fields: FieldSet) -> Comparison:
        """Return the comparison without these fields and everything below them."""
        if not fields:
            return self
        return Comparison(*(sets.recursive_difference(part, fields) for part in self))


#: The nodes of the three sets at one path, None for no node.
_Nodes: TypeAlias = "tuple[FieldSet | None, FieldSet | None, FieldSet | None]"
_SAME: Final[_Nodes] = (None, None, None)
_MODIFIED: Final[_Nodes] = (None, LEAF, None)


def compare(kind: Type, left: object, right: object) -> Comparison:
    """Return the fields that the second value adds, removes or modifies. Raises TypedError."""
    removed, modified, added = _compare(kind, left, right)
    return Comparison(_top(removed), _top(modified), _top(added))


def _top(node: FieldSet | None) -> FieldSet:
    """Return the set of a node at the top, which is no member itself."""
    return sets.below({"": node}, "") if node else LEAF


def _compare(kind: Type, left: object, right: object) -> _Nodes:
    if left is right:
        return _SAME
    if left is ABSENT:
        return (None, None, present(kind, right))
    if right is ABSENT:
        return (present(kind, left), None, None)
    # Where every type is declared, equal values have one type.
    if not kind.holds_anything and left == right:
        return _SAME
    branch = branch_of(kind, right)
    before = branch_of(kind, left)
    if before is branch:
        return _compare_as(branch, kind, left, right)
    return _merged(_compare_as(before, kind, left, right), _compare_as(branch, kind, left, right))


def _merged(one: _Nodes, other: _Nodes) -> _Nodes:
    first, second, third = (
        theirs if mine is None else mine if theirs is None else sets.union(mine, theirs)
        for mine, theirs in zip(one, other, strict=True)
    )
    return (first, second, third)


def _compare_as(branch: Branch, kind: Type, left: object, right: object) -> _Nodes:
    if branch is Branch.MAP:
        assert kind.map is not None
        old, new = fields_of(left), fields_of(right)
        if not kind.map.is_atomic and (old or new):
            return _compare_maps(kind.map, old, new)
    elif branch is Branch.LIST:
        assert kind.list is not None
        if not kind.list.is_atomic and (items_of(left) or items_of(right)):
            return _compare_lists(kind.list, left, right)
    return _SAME if same_json(left, right) else _MODIFIED


def _compare_maps(kind: MapType, old: Json, new: Json) -> _Nodes:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    for name, right in new.items():
        left = old.get(name, ABSENT)
        if left is right:
            continue
        inner = _declared(kind, name)
        if left is ABSENT:
            added[paths.FIELD + name] = present(inner, right)
            continue
        less, other, more = _compare(inner, left, right)
        if less is not None:
            removed[paths.FIELD + name] = less
        if other is not None:
            modified[paths.FIELD + name] = other
        if more is not None:
            added[paths.FIELD + name] = more
    for name, left in old.items():
        if name not in new:
            removed[paths.FIELD + name] = present(_declared(kind, name), left)
    return (removed or None, modified or None, added or None)


def _declared(kind: MapType, name: str) -> Type:
    inner = kind.fields.get(name, kind.element)
    if inner is None:
        raise TypedError(f".{name}: field not declared in schema")
    return inner


def _compare_lists(kind: ListType, left: object, right: object) -> _Nodes:
    parts: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    before, after = by_element(kind, left), by_element(kind, right)
    for element in {**before, **after}:
        inner = _compare_items(kind.element, before.get(element, []), after.get(element, []))
        for nodes, node in zip(parts, inner, strict=True):
            if node is not None:
                nodes[element] = node
    removed, modified, added = parts
    return (removed or None, modified or None, added or None)


def _compare_items(kind: Type, old: list[object], new: list[object]) -> _Nodes:
    """Compare items under one element; duplicates are compared, added and removed as a whole."""
    if len(old) <= 1 and len(new) <= 1:
        return _compare(kind, old[0] if old else ABSENT, new[0] if new else ABSENT)
    if len(old) > 1 and len(new) > 1:
        return _SAME if same_json(old, new) else _MODIFIED
    if len(old) > 1:
        return (LEAF, None, present(kind, new[0]) if new else None)
    return (present(kind, old[0]) if old else None, None, LEAF)


def present(kind: Type, value: object) -> FieldSet:
    """Return the set of a value that is on one side only: the value and everything in it."""
    if isinstance(value, dict):
        if value and kind.map is not None and not kind.map.is_atomic:
            inside: FieldSet = {paths.SELF: LEAF}
            for name, item in value.items():
                inside[paths.FIELD + name] = present(_declared(kind.map, name), item)
            return inside
    elif isinstance(value, list) and value and kind.list is not None and not kind.list.is_atomic:
        inside = {paths.SELF: LEAF}
        for element, items in by_element(kind.list, value).items():
            single = len(items) == 1
            inside[element] = present(kind.list.element, items[0]) if single else LEAF
        return inside
    return LEAF


def validate(kind: Type, value: object) -> list[str]:
    """Return the errors of a value, one line each, beginning with its path."""
    return [f"{path}: {why}" if path else why for path, why in _errors(kind, value)]


_Problem: TypeAlias = "tuple[str, str]"


def _errors(kind: Type, value: object) -> Iterator[_Problem]:
    branch = branch_of(kind, value)
    if branch is Branch.SCALAR:
        problem = _scalar_problem(kind.scalar, value)
        if problem:
            yield ("", problem)
    elif value is None:
        return
    elif branch is Branch.MAP:
        assert kind.map is not None
        if isinstance(value, dict):
            yield from _map_errors(kind.map, value)
        else:
            yield ("", f"expected map, got {_go_text(value)}")
    else:
        assert kind.list is not None
        if isinstance(value, list):
            yield from _list_errors(kind.list, value)
        else:
            yield ("", f"expected list, got {_go_text(value)}")


def _map_errors(kind: MapType, value: Json) -> Iterator[_Problem]:
    for name, item in value.items():
        inner = kind.type_of(name)
        if inner is None:
            yield (f".{name}", "field not declared in schema")
            return  # upstream stops at the first
        for path, why in _errors(inner, item):
            yield (f".{name}{path}", why)


def _list_errors(kind: ListType, value: list[object]) -> Iterator[_Problem]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"{paths.INDEX}{index}"
        if not kind.is_atomic:
            try:
                element = element_of(kind, item)
            except TypedError as error:
                yield ("", f"element {index}: {error}")
                return
            if element in seen:
                yield ("", f"duplicate entries for key {paths.shown((element,))}")
            seen.add(element)
        for path, why in _errors(kind.element, item):
            yield (paths.shown((element,)) + path, why)


def _scalar_problem(scalar: str, value: object) -> str:
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric":
        return (
            "" if is_number else f"expected numeric (int or float), got {gotext.type_name(value)}"
        )
    if scalar == "string":
        return "" if isinstance(value, str) else f"expected string, got {_go_value(value)}"
    if scalar == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got {_go_text(value)}"
    if isinstance(value, str | bool) or is_number:
        return ""
    return f"expected any scalar, got {_go_text(value)}"


def _go_text(value: object) -> str:
    """Return a value of structured-merge-diff as %v prints it."""
    return f"&{{{gotext.plain(value)}}}"


def _go_value(value: object) -> str:
    """Return a value of structured-merge-diff as %#v prints it."""
    return f"&value.valueUnstructured{{Value:{gotext.source(value)}}}"


def without(kind: Type, value: object, fields: FieldSet) -> object:
    """Return the value without the fields of a set; None, a null, if nothing is left."""
    branch = branch_of(kind, value)
    if branch is Branch.MAP:
        assert kind.map is not None
        return _map_without(kind.map, value, fields)
    if branch is Branch.LIST:
        assert kind.list is not None
        return _list_without(kind.list, value, fields)
    return value


def _map_without(kind: MapType, value: object, fields: FieldSet) -> object:
    kept: Json = {}
    if kind.is_atomic:
        return None
    for name, item in fields_of(value).items():
        element = paths.FIELD + name
        if sets.has(fields, element):
            continue
        subset = sets.below(fields, element)
        inner = kind.type_of(name)
        kept[name] = without(inner, item, subset) if subset and inner is not None else item
    return kept or None


def _list_without(kind: ListType, value: object, fields: FieldSet) -> object:
    kept: list[object] = []
    if kind.is_atomic:
        return None
    for item in items_of(value):
        element = element_of(kind, item)
        if sets.has(fields, element):
            continue
        subset = sets.below(fields, element)
        kept.append(without(kind.element, item, subset) if subset else item)
    return kept or None
