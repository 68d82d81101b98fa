"""Strategic merge patch: lists of objects merge by a key that the type declares.

schema.json has the lists that merge, and their keys (patchStrategy and patchMergeKey of the struct
tags); all other lists are replaced whole. Directives in a patch:

    $patch: replace | delete            on an object, or on an element of a merging list
    $setElementOrder/NAME: [...]        the order the elements of the list NAME shall have
    $deleteFromPrimitiveList/NAME: [..] values to take out of a list of scalars
    $retainKeys: [...]                  the only fields of this object that stay

Source: apimachinery pkg/util/strategicpatch/patch.go of v0.36.3. The original is left untouched.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types import gotext, schema
from fakeapi.types.errors import BadRequest, UnreasonedFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.types.objects import Json

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ELEMENT_ORDER: Final = "$setElementOrder/"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"


def strategic_merge(original: Json, patch: Json, type_name: str) -> Json:
    """Return the object with the patch merged in. Raises ApiError for a bad patch."""
    if _DIRECTIVE in patch:
        return _directed(patch)
    result = dict(original)
    if _RETAIN_KEYS in patch:
        result = _retained(result, patch)
    ordered = set()
    for name, order in patch.items():
        if name.startswith(_ELEMENT_ORDER):
            target = name.removeprefix(_ELEMENT_ORDER)
            ordered.add(target)
            _merge_in_order(result, patch, target, order, type_name)
    for name, value in patch.items():
        if name == _RETAIN_KEYS or name.startswith(_ELEMENT_ORDER) or name in ordered:
            continue
        if name.startswith(_DELETE_VALUES):
            _delete_values(result, name.removeprefix(_DELETE_VALUES), value)
        elif value is None:
            result.pop(name, None)
        else:
            _merge_field(result, name, value, type_name)
    return result


def _directed(patch: Json) -> Json:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise BadRequest(f"unknown patch type: {directive}")


def _retained(original: Json, patch: Json) -> Json:
    keys = patch[_RETAIN_KEYS]
    if not isinstance(keys, list):
        raise BadRequest("$retainKeys directive must be a list")
    kept = {_hashable(key) for key in keys}
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in kept:
            raise BadRequest(
                "$retainKeys directive must contain all fields that are present in the patch"
            )
    return {name: value for name, value in original.items() if name in kept}


def _delete_values(result: Json, name: str, values: object) -> None:
    if not isinstance(values, list):
        raise BadRequest(f"{_DELETE_VALUES}{name} must be a list")
    present = result.get(name)
    if isinstance(present, list):
        dropped = {_hashable(value) for value in values}
        result[name] = [value for value in present if _hashable(value) not in dropped]


def _merge_field(result: Json, name: str, value: object, type_name: str) -> None:
    present = result.get(name)
    if isinstance(value, dict) and isinstance(present, dict):
        field = _field(type_name, name)
        if "replace" in field.strategies:
            result[name] = value
        else:
            result[name] = strategic_merge(present, value, field.type)
    elif isinstance(value, list) and isinstance(present, list):
        field = _field(type_name, name)
        if "merge" in field.strategies:
            result[name] = _merge_lists(present, value, field)
        else:
            result[name] = value
    else:
        kept = _without_directives(value)
        if kept is None:
            result.pop(name, None)
        else:
            result[name] = kept


def _field(type_name: str, name: str) -> schema.Field:
    """Return the type's declaration of a field; entries of maps and raw JSON have none."""
    if type_name.startswith("{}"):
        return schema.Field(name, type_name[2:])
    fields = schema.fields_of(type_name)
    if not fields:
        return schema.Field(name, type_name)
    field = fields.get(name)
    if field is None:
        short = type_name.rpartition(".")[2]
        raise UnreasonedFailure(
            f'unable to find api field in struct {short} for the json field "{name}"'
        )
    return field


def _without_directives(value: object) -> object:
    """Return a value that the original does not have, without nulls and directives."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return None
        kept = {
            name: _without_directives(item)
            for name, item in value.items()
            if not name.startswith("$")
        }
        return {name: item for name, item in kept.items() if item is not None}
    if isinstance(value, list):
        items = [_without_directives(item) for item in value]
        return [item for item in items if item is not None]
    return value


def _merge_in_order(result: Json, patch: Json, name: str, order: object, type_name: str) -> None:
    """Merge a list whose element order the patch sets."""
    if not isinstance(order, list):
        raise BadRequest(f"{_ELEMENT_ORDER}{name} must be a list")
    field = _field(type_name, name)
    present, added = result.get(name), patch.get(name)
    if isinstance(added, list):
        _check_order(added, order, field.merge_key)
    if isinstance(present, list) and isinstance(added, list):
        merged = _merge_lists(present, added, field)
    elif isinstance(added, list):
        kept = _without_directives(added)
        assert isinstance(kept, list)
        merged = kept
    elif isinstance(present, list):
        merged = present
    else:
        return
    before = present if isinstance(present, list) else []
    result[name] = _in_order(merged, order, before, _identity(field.merge_key))


def _check_order(elements: list[object], order: list[object], merge_key: str) -> None:
    identity = _identity(merge_key)
    wanted = _positions(order, identity)
    named = [item for item in elements if not (isinstance(item, dict) and _DIRECTIVE in item)]
    positions = [wanted.get(_hashable(identity(item)), -1) for item in named]
    if -1 in positions or positions != sorted(positions):
        raise BadRequest("$setElementOrder list is not consistent with the list in the patch")


def _identity(merge_key: str) -> Callable[[object], object]:
    """Return the identity of an element: the merge key of an object, a scalar itself."""

    def identity(item: object) -> object:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    return identity


def _merge_lists(original: list[object], patch: list[object], field: schema.Field) -> list[object]:
    if not original and not patch:
        return original
    if not any(isinstance(item, dict) for item in (*original, *patch)):
        merged = list({_hashable(item): item for item in (*original, *patch)}.values())
        return _in_order(merged, patch, original, _identity(""))
    if not field.merge_key:
        raise UnreasonedFailure(f"cannot merge lists without merge key for {field.name}")
    kept, added = _apply_element_directives(original, patch, field)
    merged = _merge_elements(kept, added, field)
    return _in_order(merged, added, kept, _identity(field.merge_key))


def _apply_element_directives(
    original: list[object], patch: list[object], field: schema.Field
) -> tuple[list[object], list[Json]]:
    """Apply the elements with delete or replace directives; return elements to merge."""
    elements: list[Json] = []
    deleted, replaces = set(), False
    for item in patch:
        if not isinstance(item, dict):
            raise BadRequest(f"cannot merge {field.name}: not all elements are objects")
        directive = item.get(_DIRECTIVE)
        if directive is None:
            elements.append(item)
        elif directive == "replace":
            replaces = True
        elif directive == "delete":
            deleted.add(_hashable(_merge_value(item, field)))
        else:
            raise BadRequest(f"unknown patch type: {directive}")
    if replaces:
        return [], elements
    if not deleted:
        return original, elements
    identity = _identity(field.merge_key)
    return [item for item in original if _hashable(identity(item)) not in deleted], elements


def _merge_elements(original: list[object], patch: list[Json], field: schema.Field) -> list[object]:
    merged = list(original)
    places = _positions(original, _identity(field.merge_key))
    for item in patch:
        place = places.setdefault(_hashable(_merge_value(item, field)), len(merged))
        other = merged[place] if place < len(merged) else None
        if isinstance(other, dict):
            merged[place] = strategic_merge(other, item, field.type.removeprefix("[]"))
        else:
            merged.append(item)
    return merged


def _merge_value(item: Json, field: schema.Field) -> object:
    if field.merge_key not in item:
        raise UnreasonedFailure(
            f"map: {gotext.plain(item)} does not contain declared merge key: {field.merge_key}"
        )
    return item[field.merge_key]


def _in_order(
    merged: list[object],
    order: list[object] | list[Json],
    before: list[object],
    identity: Callable[[object], object],
) -> list[object]:
    """Return the elements in the patch's order; others keep their places."""
    wanted = _positions(order, identity)
    places = {_hashable(identity(item)): index for index, item in enumerate(before)}
    keyed = [(_hashable(identity(item)), item) for item in merged]
    named = collections.deque(
        sorted((pair for pair in keyed if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    )
    others = collections.deque(pair for pair in keyed if pair[0] not in wanted)
    result: list[object] = []
    while named and others:
        left, right = places.get(others[0][0]), places.get(named[0][0])
        earlier = left is not None and right is not None and left < right
        result.append((others if earlier else named).popleft()[1])
    return [*result, *(item for _, item in (*named, *others))]


def _positions(items: Iterable[object], identity: Callable[[object], object]) -> dict[object, int]:
    """Return the first position of each identity."""
    positions: dict[object, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(_hashable(identity(item)), position)
    return positions


def _hashable(value: object) -> object:
    if isinstance(value, str | int | float | bool | None):
        return value
    return msgspec.json.encode(value, order="sorted")
