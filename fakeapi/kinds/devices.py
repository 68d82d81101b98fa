"""ResourceClaims, ResourceSlices and DeviceClasses (dynamic resource allocation)."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, NAME_AND_AGE, Column, find
from fakeapi.types.kind import NAME_FIELDS, Generation, Kind, value_at
from fakeapi.types.objects import Json, is_deleting

_SLICE_FIELDS: Final = {
    **NAME_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.driver": value_at("spec", "driver"),
}


def _claim_state(claim: Json, _now_seconds: float) -> str:
    states = ["deleted"] if is_deleting(claim) else []
    if find(claim, ".status.allocation") is not None:
        states.append("allocated")
        if find(claim, ".status.reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


KINDS: Final = (
    Kind(
        "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim",
        schema="resource/v1.ResourceClaim", subresources=("status",), returns_deleted=True,
        columns=(NAME, Column("State", _claim_state), AGE),
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
        schema="resource/v1.ResourceClaimTemplate", returns_deleted=True,
        columns=NAME_AND_AGE,
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False,
        schema="resource/v1.ResourceSlice", generation=Generation.SPEC, fields=_SLICE_FIELDS,
        returns_deleted=True,
        columns=(
            NAME, Column("Node", ".spec.nodeName"), Column("Driver", ".spec.driver"),
            Column("Pool", ".spec.pool.name"), AGE,
        ),
    ),
    Kind(
        "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False,
        schema="resource/v1.DeviceClass", generation=Generation.SPEC, returns_deleted=True,
        columns=NAME_AND_AGE,
    ),
)  # fmt: skip
