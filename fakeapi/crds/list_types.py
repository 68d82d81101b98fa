"""Lists that are sets or maps: no value, and no key, may be in them twice.

Source: apiextensions-apiserver pkg/apiserver/schema/listtype of v0.36.3.
"""

from __future__ import annotations

import msgspec

from fakeapi.crds.pruning import below, items_of
from fakeapi.types.errors import FieldError, duplicate, invalid
from fakeapi.types.objects import Json, mapping, text, texts


def validate_lists(value: object, node: Json | None, path: str = "") -> list[FieldError]:
    """What occurs twice in the lists of a value; values are shown as Go prints maps, in order."""
    if node is None:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        for key, item in value.items():
            is_field = key in mapping(node.get("properties"))
            where = (f"{path}.{key}" if path else key) if is_field else f"{path}[{key}]"
            errors += validate_lists(item, below(node, key)[0], where)
    elif isinstance(value, list):
        list_type = text(node.get("x-kubernetes-list-type"))
        if list_type == "set":
            repeated = _repeated(value)
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in repeated]
        elif list_type == "map":
            errors += _validate_map(value, texts(node.get("x-kubernetes-list-map-keys")), path)
        for index, item in enumerate(value):
            errors += validate_lists(item, items_of(node), f"{path}[{index}]")
    return errors


def _repeated(values: list[object]) -> list[int]:
    """Where values stand for the second time; a third is not told."""
    seen: dict[bytes, int] = {}
    found = []
    for index, value in enumerate(values):
        form = msgspec.json.encode(value, order="deterministic")
        seen[form] = seen.get(form, 0) + 1
        if seen[form] == 2:
            found.append(index)
    return found


def _validate_map(value: list[object], keys: list[str], path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            why = "must be an object for an array of list-type map"
            return [invalid(f"{path}[{index}]", item, why)]
    elements: list[object] = [
        {key: mapping(item)[key] for key in keys if key in mapping(item)} for item in value
    ]
    return [duplicate(f"{path}[{index}]", elements[index]) for index in _repeated(elements)]
