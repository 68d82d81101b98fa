"""The storage class of a claim.

Source: GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go of v0.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.objects import Json, mapping, metadata_of, text

STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
#: The annotation that preceded the field, and still overrides it.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def claim_class(claim: Json) -> str:
    """Return the storage class of a claim or volume: the annotation, else the field."""
    annotations = mapping(metadata_of(claim).get("annotations"))
    if CLASS_ANNOTATION in annotations:
        return text(annotations[CLASS_ANNOTATION])
    return text(mapping(claim.get("spec")).get("storageClassName"))
