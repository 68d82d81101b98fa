"""ResourceClaims, ResourceSlices and DeviceClasses (dynamic resource allocation).

Source: pkg/apis/resource/{v1,validation} and pkg/registry/resource of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, NAME_AND_AGE, Column, find
from fakeapi.types.errors import FieldError, forbidden
from fakeapi.types.kind import CLIENT_METADATA, NAME_FIELDS, Generation, Kind, KindRules, value_at
from fakeapi.types.objects import Json, child, is_deleting, mapping, mappings, set_defaults
from fakeapi.validation.metadata import IMMUTABLE

_SLICE_FIELDS: Final = {
    **NAME_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.driver": value_at("spec", "driver"),
}


def _set_claim_defaults(claim: Json) -> None:
    for request in mappings(mapping(mapping(claim.get("spec")).get("devices")).get("requests")):
        exactly = request.get("exactly")
        choices = mappings(request.get("firstAvailable"))
        for wish in [*choices, *([exactly] if isinstance(exactly, dict) else [])]:
            set_defaults(wish, allocationMode="ExactCount")
            if wish["allocationMode"] == "ExactCount" and not wish.get("count"):
                wish["count"] = 1


def _set_template_defaults(template: Json) -> None:
    _set_claim_defaults(child(template, "spec"))


def _validate_claim_update(new: Json, old: Json) -> list[FieldError]:
    if new.get("spec") == old.get("spec"):
        return []
    return [forbidden("spec", IMMUTABLE)]


def _set_taint_times(resource_slice: Json, now: str) -> None:
    for device in mappings(mapping(resource_slice.get("spec")).get("devices")):
        for taint in mappings(device.get("taints")):
            set_defaults(taint, timeAdded=now)


def _prepare_slice_update(new: Json, old: Json, now: str) -> None:
    _set_taint_times(new, now)


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
        status_keeps=CLIENT_METADATA,
        rules=KindRules(set_defaults=_set_claim_defaults, validate_update=_validate_claim_update),
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
        schema="resource/v1.ResourceClaimTemplate", returns_deleted=True,
        columns=NAME_AND_AGE,
        rules=KindRules(set_defaults=_set_template_defaults),
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False,
        schema="resource/v1.ResourceSlice", generation=Generation.SPEC, fields=_SLICE_FIELDS,
        returns_deleted=True,
        columns=(
            NAME, Column("Node", ".spec.nodeName"), Column("Driver", ".spec.driver"),
            Column("Pool", ".spec.pool.name"), AGE,
        ),
        rules=KindRules(prepare=_set_taint_times, prepare_update=_prepare_slice_update),
    ),
    Kind(
        "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False,
        schema="resource/v1.DeviceClass", generation=Generation.SPEC, returns_deleted=True,
        columns=NAME_AND_AGE,
    ),
)  # fmt: skip
