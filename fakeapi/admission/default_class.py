"""The class of a kind that an annotation marks as default.

Source: pkg/volume/util/storageclass.go and plugin/pkg/admission/network/defaultingressclass of
Kubernetes v1.36.3, which choose in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types.objects import mapping, metadata_of, name_of, text

if TYPE_CHECKING:
    from fakeapi.store.store import Store
    from fakeapi.types.kind import ResourceKey


def default_class(store: Store, resource: ResourceKey, *annotations: str) -> str:
    """The newest class that is marked, of equally new ones the first by name; empty if none is."""
    marked = []
    for found in store.collection(resource).revisions.values():
        notes = mapping(metadata_of(found.object).get("annotations"))
        if any(notes.get(annotation) == "true" for annotation in annotations):
            marked.append(found.object)
    if not marked:
        return ""
    newest = max(text(metadata_of(found).get("creationTimestamp")) for found in marked)
    return min(
        name_of(found)
        for found in marked
        if text(metadata_of(found).get("creationTimestamp")) == newest
    )
