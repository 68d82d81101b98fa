"""Kubernetes objects as JSON values, and typed access to their fields.

Objects in the store are plain dicts that are never changed: a write makes new dicts along the path
that it changes and shares the rest. They have no `kind` and `apiVersion`, because one object may be
served in two API groups; the collection has the kind.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

Json: TypeAlias = dict[str, object]

#: Encode a value as compact JSON.
encode: Final = msgspec.json.Encoder().encode

_NOTHING: Final[Json] = {}
_NONE: Final[list[object]] = []


def mapping(value: object) -> Json:
    """Return the value if it is a JSON object, else an empty object that must not be changed."""
    return value if isinstance(value, dict) else _NOTHING


def sequence(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty array that must not be changed."""
    return value if isinstance(value, list) else _NONE


def mappings(value: object) -> list[Json]:
    """Return the JSON objects in an array, without its other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """Return the strings in an array, without its other values."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return the value if it is a string, else the empty string."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """Return the value if it is an integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def string_map(value: object) -> dict[str, str]:
    """Return the string entries of a JSON object, as a new dict."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def value_in(obj: Json, path: tuple[str, ...]) -> object:
    """Return the value at a path of fields, None if it is missing."""
    value: object = obj
    for name in path:
        value = mapping(value).get(name)
    return value


def child(parent: Json, key: str) -> Json:
    """Return the object under a key, made if it is missing; for objects under construction."""
    value = parent.get(key)
    if not isinstance(value, dict):
        value = parent[key] = {}
    return value


def set_defaults(obj: Json, **values: object) -> None:
    """Set the fields that are missing, null or empty strings; for objects that are being built."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value


def keep_field(new: Json, old: Json, field: str) -> None:
    """Undo any change of one field; for objects that are being built."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def metadata_of(obj: Json) -> Json:
    """Return the object's metadata, to read."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else _NOTHING


def name_of(obj: Json) -> str:
    """Return the object's name, empty if it has none yet."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def namespace_of(obj: Json) -> str:
    """Return the object's namespace, empty for cluster-scoped kinds."""
    return text(metadata_of(obj).get("namespace"))


def labels_of(obj: Json) -> Json:
    """Return the object's labels, to read."""
    return mapping(metadata_of(obj).get("labels"))


def finalizers_of(obj: Json) -> list[str]:
    """Return the object's finalizers, to read."""
    return texts(metadata_of(obj).get("finalizers"))


def is_deleting(obj: Json) -> bool:
    """Return True if the object has a deletionTimestamp."""
    return metadata_of(obj).get("deletionTimestamp") is not None


def with_metadata(obj: Json, **changes: object) -> Json:
    """Return a copy of the object with some metadata fields replaced; None removes a field."""
    metadata = {**metadata_of(obj), **changes}
    if None in changes.values():
        metadata = {name: value for name, value in metadata.items() if value is not None}
    return {**obj, "metadata": metadata}


def same_json(left: object, right: object) -> bool:
    """Return True if two JSON values are equal; unlike in Python, `true` is not 1."""
    if left != right:
        return False
    if isinstance(left, dict):
        assert isinstance(right, dict)
        return all(
            type(value) is str or same_json(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list):
        assert isinstance(right, list)
        return all(same_json(one, other) for one, other in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool)


def with_condition(status: Json, condition: Json) -> Json:
    """Return the status with a condition; its transition time is the old one if it is no change."""
    conditions: list[Json] = []
    condition = dict(condition)
    is_replaced = False
    for present in mappings(status.get("conditions")):
        if present.get("type") == condition["type"]:
            is_replaced = True
            if present.get("status") == condition["status"]:
                condition["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions.append(condition)
        else:
            conditions.append(present)
    if not is_replaced:
        conditions.append(condition)
    return {**status, "conditions": conditions}


def in_key_order(value: object) -> object:
    """Return a JSON value with the keys of its objects sorted, as Go encodes maps."""
    if isinstance(value, dict):
        return {name: in_key_order(value[name]) for name in sorted(value)}
    return [in_key_order(item) for item in value] if isinstance(value, list) else value
