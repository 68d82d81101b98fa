"""From what a client sent to the stored form of an object.

    decode by the kind's schema -> into the stored version -> defaults -> fields in line

The pods of a workload have one spec. What became of a spec is remembered, and shared by all pods
that come with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.apply import ownership
from fakeapi.kinds import conversions
from fakeapi.types import schema
from fakeapi.types.memo import Memo
from fakeapi.types.objects import Json, child, mapping
from fakeapi.types.sharing import shared, text_of
from fakeapi.writes import defaults

if TYPE_CHECKING:
    from fakeapi.kinds.table import Kind

__all__ = ["complete", "keep_spec", "known_spec"]

_PODS: Final = ("", "pods")
#: In the order in which upstream shows them, whatever the client's is.
_PARTS: Final = ("metadata", "spec", "status")
#: What became of the specs of pods, by texts that mean them; none has a field that is dropped.
_specs: Final[Memo[Json]] = Memo()


def complete(kind: Kind, value: Json, dropped: list[str] | None = None) -> Json:
    """The stored form of what a client sent: decoded, converted, defaults filled in.

    The names of unknown fields are added to `dropped`. Raises DecodeError. The result is the
    caller's own to change, but for the spec of a pod, which is shared (see sharing.py).
    """
    dropped = [] if dropped is None else dropped
    if kind.resource_key != _PODS:
        return _complete(kind, value, dropped)
    pod = _complete_pod(kind, value, dropped)
    return {part: pod[part] for part in _PARTS if part in pod}


def known_spec(text: bytes) -> Json | None:
    """The stored form of a pod's spec, to share, if that text of it has come before."""
    found = _specs.get(text)
    return None if found is None else shared(found)


def keep_spec(text: bytes, spec: object) -> None:
    """Remember the stored form of a spec; no field of it was dropped or said twice."""
    _specs.keep(text, shared(mapping(spec)))


def _complete(kind: Kind, value: Json, dropped: list[str]) -> Json:
    obj = _decoded(kind, value, dropped)
    defaults.apply_defaults(kind.resource_key, obj)
    kind.rules.apply_defaults(obj)
    conversions.convert(kind.resource_key, obj)
    return obj


def _complete_pod(kind: Kind, value: Json, dropped: list[str]) -> Json:
    """The same, quicker for a spec that has come before; a pod's defaults are all in its spec."""
    try:
        text = text_of(value.get("spec"))
    except (ValueError, TypeError, RecursionError):
        return _complete(kind, value, dropped)
    spec = known_spec(text)
    if spec is not None:
        obj = _decoded(kind, {**value, "spec": {}}, dropped)
        obj["spec"] = spec
        conversions.convert(kind.resource_key, obj)
        return obj
    before = len(dropped)
    obj = _complete(kind, value, dropped)
    obj["spec"] = shared(mapping(obj.get("spec")))
    if len(dropped) == before:
        keep_spec(text, obj["spec"])
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
