"""The storage class of a claim.

Source: GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go of v0.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.objects import Json, mapping, metadata_of, text

STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
#: Where the class was before there was a field; it still counts more than the field.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def claim_class(claim: Json) -> str:
    """The annotation of old, else the field; empty if it has none."""
    annotations = mapping(metadata_of(claim).get("annotations"))
    if CLASS_ANNOTATION in annotations:
        return text(annotations[CLASS_ANNOTATION])
    return text(mapping(claim.get("spec")).get("storageClassName"))
