"""From the body of a request to the stored form of an object.

decode by the kind's schema -> convert to the stored version -> set defaults
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.apply import ownership
from fakeapi.types import schema
from fakeapi.types.objects import Json, child

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind


def complete(kind: Kind, value: Json, dropped: list[str] | None = None) -> Json:
    """Return the stored form of a client's object: decoded, converted, defaults filled in.

    The names of unknown fields are added to `dropped`. The result may be changed. Raises
    DecodeError.
    """
    obj = _decoded(kind, value, [] if dropped is None else dropped)
    kind.rules.set_defaults(obj)
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
