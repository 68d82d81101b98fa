"""From what a client sent to the stored form of an object.

    decode by the kind's schema -> into the stored version -> defaults -> fields in line

The pods of a workload have one spec. What became of a spec is remembered and taken again, as a copy
of its own for every pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from . import conversions, defaults, ownership, schema
from .memo import Memo
from .objects import Json, child

if TYPE_CHECKING:
    from .kinds import Kind

__all__ = ["complete"]

_PODS: Final = ("", "pods")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Json).decode
#: Specs as they were sent, without a field that was dropped, and what became of them.
_specs: Final[Memo[bytes]] = Memo()


def complete(kind: Kind, value: Json, dropped: list[str] | None = None) -> Json:
    """The stored form of what a client sent: decoded, converted, defaults filled in.

    The names of unknown fields are added to `dropped`. Raises DecodeError. The result is the
    caller's own to change.
    """
    if kind.resource_key != _PODS:
        return _complete(kind, value, [] if dropped is None else dropped)
    return _complete_pod(kind, value, [] if dropped is None else dropped)


def _complete(kind: Kind, value: Json, dropped: list[str]) -> Json:
    obj = _decoded(kind, value, dropped)
    defaults.apply_defaults(kind.resource_key, obj)
    conversions.convert(kind.resource_key, obj)
    return obj


def _complete_pod(kind: Kind, value: Json, dropped: list[str]) -> Json:
    """The same, quicker for a spec that has come before; a pod's defaults are all in its spec."""
    try:
        key = _encode(value.get("spec"))
    except (ValueError, TypeError, RecursionError):
        return _complete(kind, value, dropped)
    known = _specs.get(key)
    if known is not None:
        obj = _decoded(kind, {**value, "spec": {}}, dropped)
        obj["spec"] = _decode(known)
        conversions.convert(kind.resource_key, obj)
        return obj
    before = len(dropped)
    obj = _complete(kind, value, dropped)
    if len(dropped) == before:
        _specs.keep(key, _encode(obj["spec"]))
    return obj


def _decoded(kind: Kind, value: Json, dropped: list[str]) -> Json:
    value, entries = ownership.detached(value)
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
