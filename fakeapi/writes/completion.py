"""From the body of a request to the stored form of an object.

decode by the kind's schema -> into the stored version -> defaults -> fields in line
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.apply import ownership
from fakeapi.types import schema
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, child
from fakeapi.writes import conversions, defaults

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind

#: In the order in which upstream shows them, whatever the client's is.
_PARTS: Final = ("metadata", "spec", "status")


def complete(kind: Kind, value: Json, dropped: list[str] | None = None) -> Json:
    """Return the stored form of a client's object: decoded, converted, defaults filled in.

    The names of unknown fields are added to `dropped`. The result may be changed. Raises
    DecodeError.
    """
    obj = _decoded(kind, value, [] if dropped is None else dropped)
    defaults.apply_defaults(kind.resource_key, obj)
    kind.rules.apply_defaults(obj)
    conversions.convert(kind.resource_key, obj)
    if kind.resource_key == PODS:
        return {part: obj[part] for part in _PARTS if part in obj}
    return obj


def _decoded(kind: Kind, value: Json, dropped: list[str]) -> Json:
    value, entries = ownership.split_entries(value)
    if kind.schema:
        obj = schema.decode(kind.schema, value, dropped)
        if kind.to_stored is not None:
            obj = kind.to_stored(obj)
    elif kind.structure is not None:
        obj = kind.structure.complete(value, dropped)
    else:
        obj = dict(value)
        obj["metadata"] = schema.decode("meta/v1.ObjectMeta", value.get("metadata"), dropped)
        schema.check_encodable(obj)
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    if entries is not None:
        child(obj, "metadata")["managedFields"] = entries
    return obj
