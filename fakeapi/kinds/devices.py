"""ResourceClaims, ResourceSlices and DeviceClasses (dynamic resource allocation)."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import storage
from fakeapi.types.kind import NAME_FIELDS, Generation, Kind, value_at

_SLICE_FIELDS: Final = {
    **NAME_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.driver": value_at("spec", "driver"),
}

KINDS: Final = (
    Kind(
        "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim",
        schema="resource/v1.ResourceClaim", subresources=("status",), returns_deleted=True,
        printer=storage.PRINTERS["resource.k8s.io", "resourceclaims"],
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
        schema="resource/v1.ResourceClaimTemplate", returns_deleted=True,
        printer=storage.PRINTERS["resource.k8s.io", "resourceclaimtemplates"],
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False,
        schema="resource/v1.ResourceSlice", generation=Generation.SPEC, fields=_SLICE_FIELDS,
        returns_deleted=True,
        printer=storage.PRINTERS["resource.k8s.io", "resourceslices"],
    ),
    Kind(
        "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False,
        schema="resource/v1.DeviceClass", generation=Generation.SPEC, returns_deleted=True,
        printer=storage.PRINTERS["resource.k8s.io", "deviceclasses"],
    ),
)  # fmt: skip
