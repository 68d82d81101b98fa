"""Kubernetes objects as JSON values, and narrow ways into them.

An object in the store is a plain dict that nobody changes: a write builds new dicts along the path
it touches and shares the rest. Objects are kept without `kind` and `apiVersion`; the kind is known
from where they are stored, and one object may be shown under two API groups.
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
    """The value if it is a JSON object, else an empty one that must not be written to."""
    return value if isinstance(value, dict) else _NOTHING


def sequence(value: object) -> list[object]:
    """The value if it is a JSON array, else an empty one that must not be written to."""
    return value if isinstance(value, list) else _NONE


def mappings(value: object) -> list[Json]:
    """The JSON objects of an array; anything else in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The strings of an array; anything else in it is left out."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text(value: object) -> str:
    """The value if it is a string, else the empty string."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """The value if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def string_map(value: object) -> dict[str, str]:
    """The string entries of a JSON object, as a new dict."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def child(parent: Json, key: str) -> Json:
    """The object under a key, created if it is missing; for objects that are being built."""
    value = parent.get(key)
    if not isinstance(value, dict):
        value = parent[key] = {}
    return value


def metadata_of(obj: Json) -> Json:
    """The object's metadata, to read."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else _NOTHING


def name_of(obj: Json) -> str:
    """The object's name, empty if it has none yet."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def namespace_of(obj: Json) -> str:
    """The object's namespace, empty for cluster-scoped kinds."""
    return text(metadata_of(obj).get("namespace"))


def labels_of(obj: Json) -> Json:
    """The object's labels, to read."""
    return mapping(metadata_of(obj).get("labels"))


def finalizers_of(obj: Json) -> list[str]:
    """The object's finalizers, to read."""
    return texts(metadata_of(obj).get("finalizers"))


def is_deleting(obj: Json) -> bool:
    """Whether the object carries a deletionTimestamp."""
    return metadata_of(obj).get("deletionTimestamp") is not None


def with_metadata(obj: Json, **changes: object) -> Json:
    """A copy of the object with some metadata fields replaced; None removes a field."""
    metadata = {**metadata_of(obj), **changes}
    if None in changes.values():
        metadata = {name: value for name, value in metadata.items() if value is not None}
    return {**obj, "metadata": metadata}


def in_key_order(value: Json) -> Json:
    """Return the object with its keys sorted at each level, as Go encodes maps."""
    return {name: _in_key_order(value[name]) for name in sorted(value)}


def _in_key_order(value: object) -> object:
    if isinstance(value, dict):
        return in_key_order(value)
    return [_in_key_order(item) for item in value] if isinstance(value, list) else value
