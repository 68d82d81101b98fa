"""References to objects, for events and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.core import ObjectReference

if TYPE_CHECKING:
    from scheduler.api.core import ObjectMeta


def reference_to(api_version: str, kind: str, metadata: ObjectMeta) -> ObjectReference:
    """Return a reference to this version of an object."""
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
