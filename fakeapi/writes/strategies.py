"""Changes that the server makes to an object before it is validated, the same for all kinds.

A create resets the status; an update keeps the half of the object that belongs to another endpoint:
the kind's own endpoint keeps the status, the status endpoint keeps the spec. The rest is in the
kind's `KindRules`. All functions change the new object in place and leave the stored one alone.

Source: apiserver pkg/registry/rest and pkg/registry/*/strategy.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types import schema
from fakeapi.types.kind import Generation
from fakeapi.types.objects import Json, child, integer, keep_field, labels_of, mapping, metadata_of

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind


def prepare_for_create(kind: Kind, obj: Json, now: str) -> None:
    """Set the first generation and status, and the fields that the kind's rules set."""
    if kind.generation not in (Generation.NEVER, Generation.SPEC_LATER):
        child(obj, "metadata")["generation"] = 1
    if kind.has_status and not kind.keeps_status_on_create:
        _reset_status(kind, obj)
    _drop_disabled_fields(kind, obj, {})
    kind.rules.prepare(obj, now)


def _reset_status(kind: Kind, obj: Json) -> None:
    """Replace the client's status by the zero value of its type."""
    zero = schema.decode(kind.schema, {}) if kind.schema else {}
    if kind.to_stored is not None:
        zero = kind.to_stored(zero)
    keep_field(obj, zero, "status")


def prepare_for_update(kind: Kind, new: Json, old: Json, now: str, *, subresource: str) -> None:
    """Keep the fields that the endpoint does not write, and count generations."""
    if subresource == "status":
        _keep_all_but_status(kind, new, old)
    elif kind.has_status:
        keep_field(new, old, "status")
    _drop_disabled_fields(kind, new, old)
    if not subresource:
        kind.rules.prepare_update(new, old, now)
    elif subresource in kind.rules.subresources:
        kind.rules.subresources[subresource].prepare(new, old, now)
    if subresource != "status" and _moves_generation(kind, new, old):
        generation = integer(metadata_of(old).get("generation"))
        child(new, "metadata")["generation"] = generation + 1


def _drop_disabled_fields(kind: Kind, new: Json, old: Json) -> None:
    """Drop the fields whose feature is off, unless the stored object uses them."""
    for *path, field in kind.rules.disabled_fields:
        inner, stored = new, old
        for name in path:
            inner, stored = mapping(inner.get(name)), mapping(stored.get(name))
        if stored.get(field) is None:
            inner.pop(field, None)


def _keep_all_but_status(kind: Kind, new: Json, old: Json) -> None:
    for part in old.keys() | new.keys():
        if part not in ("metadata", "status"):
            keep_field(new, old, part)
    for field in kind.status_keeps:
        keep_field(child(new, "metadata"), metadata_of(old), field)


def _moves_generation(kind: Kind, new: Json, old: Json) -> bool:
    if kind.generation in (Generation.NEVER, Generation.ON_CREATE):
        return False
    if kind.generation in (Generation.CONTENT, Generation.CONTENT_OR_LABELS):
        parts = (new.keys() | old.keys()) - {"metadata"}
        return any(new.get(part) != old.get(part) for part in parts) or (
            kind.generation is Generation.CONTENT_OR_LABELS and labels_of(new) != labels_of(old)
        )
    if new.get("spec") != old.get("spec"):
        return True
    annotations = metadata_of(new).get("annotations"), metadata_of(old).get("annotations")
    return kind.generation is Generation.SPEC_OR_ANNOTATIONS and annotations[0] != annotations[1]


def warnings(kind: Kind, new: Json, old: Json | None = None) -> list[str]:
    """Return the warnings about a valid object, which are sent even if admission refuses it."""
    if kind.structure is not None:
        return kind.structure.warnings(new, old)
    return kind.rules.warnings(new, old)
