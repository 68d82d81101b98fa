"""ResourceClaims, ResourceSlices and DeviceClasses (dynamic resource allocation).

Source: pkg/apis/resource/{v1,validation} and pkg/registry/resource of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import AGE, NAME, NAME_AND_AGE, Column, find
from fakeapi.types.errors import FieldError, forbidden, invalid
from fakeapi.types.gotext import quoted
from fakeapi.types.kind import (
    CLIENT_METADATA,
    NAME_FIELDS,
    Generation,
    Kind,
    KindRules,
    NeededPermission,
    UpdateRules,
    value_at,
)
from fakeapi.types.objects import Json, child, is_deleting, mapping, mappings, set_defaults, text
from fakeapi.types.pod_resources import is_extended_resource
from fakeapi.validation.checks import each, fixed
from fakeapi.validation.device_slices import validate_slice
from fakeapi.validation.devices import (
    allocated_devices,
    device_key,
    validate_claim_spec,
    validate_claim_status,
    validate_config,
    validate_selectors,
    validate_template_spec,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_SLICE_FIELDS: Final = {
    **NAME_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.driver": value_at("spec", "driver"),
}

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_CONFIGS_MAX: Final = 32


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


def _validate_claim(claim: Json) -> list[FieldError]:
    return validate_claim_spec(mapping(claim.get("spec")), "spec")


def _validate_template(template: Json) -> list[FieldError]:
    return validate_template_spec(mapping(template.get("spec")), "spec")


def _admin_access_errors(obj: Json, old: Json | None, namespace_labels: Json) -> list[FieldError]:
    """Return the error of admin access in a namespace without the label for it.

    Source: AuthorizedForAdmin and AuthorizedForAdminStatus of pkg/registry/resource/utils.go.
    """
    if namespace_labels.get(_ADMIN_LABEL) == "true":
        return []
    if old is None:
        spec = mapping(obj.get("spec"))
        devices = mapping(mapping(spec.get("spec", spec)).get("devices"))
        fields = [
            f"spec.devices.requests[{index}].adminAccess"
            for index, request in enumerate(mappings(devices.get("requests")))
            if mapping(request.get("exactly")).get("adminAccess") is True
        ]
    else:
        fields = [] if _admin_results(old) else _admin_results(obj)
    why = (
        f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing "
        "namespace"
    )
    return [forbidden(field, why) for field in fields[:1]]


def _admin_results(claim: Json) -> list[str]:
    allocation = mapping(mapping(claim.get("status")).get("allocation"))
    results = mappings(mapping(allocation.get("devices")).get("results"))
    return [
        f"status.allocation.devices.results[{index}].adminAccess"
        for index, result in enumerate(results)
        if result.get("adminAccess") is True
    ]


def _drop_deallocated_devices(new: Json, old: Json, _now: str) -> None:
    """Drop the statuses of devices that the claim no longer has."""
    status = child(new, "status")
    gone = allocated_devices(old) - allocated_devices(new)
    left = [one for one in mappings(status.get("devices")) if device_key(one) not in gone]
    status["devices"] = left
    if not left:
        del status["devices"]


def _validate_class(device_class: Json) -> list[FieldError]:
    spec = mapping(device_class.get("spec"))
    errors = validate_selectors(mappings(spec.get("selectors")), "spec.selectors")
    errors += each(
        mappings(spec.get("config")), "spec.config", validate_config, maximum=_CONFIGS_MAX
    )
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(text(name)):
        why = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, why))
    return errors


def _slice_warnings(resource_slice: Json, _old: Json | None) -> list[str]:
    driver = text(mapping(resource_slice.get("spec")).get("driver"))
    if driver == driver.lower():
        return []
    return [
        "spec.driver: driver names should be lowercase; "
        f"{quoted(driver)} contains uppercase characters"
    ]


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


def _status_permissions(new: Json, old: Json) -> list[NeededPermission]:
    """Return the permissions for allocations and users of a claim, and for a driver's devices.

    Source: AuthorizedForBinding and AuthorizedForDeviceStatus of pkg/registry/resource/utils.go.
    """
    status, old_status = mapping(new.get("status")), mapping(old.get("status"))
    needed = []
    fields = ("allocation", "reservedFor")
    if any((status.get(field) or None) != (old_status.get(field) or None) for field in fields):
        text_of_fields = " or ".join(f"status.{field}" for field in fields)
        needed.append(NeededPermission("status.allocation", text_of_fields, "binding"))
    if (allocation := status.get("allocation")) is None:
        return needed
    devices, old_devices = (
        {device_key(device): device for device in mappings(one.get("devices"))}
        for one in (status, old_status)
    )
    changed = {
        key[0]
        for key in devices.keys() | old_devices.keys()
        if devices.get(key) != old_devices.get(key)
    }
    node = _only_node(mapping(allocation))
    return needed + [
        NeededPermission(
            "status.devices", "status.devices", "driver", ("arbitrary-node:",), driver,
            "associated-node:", node,
        )
        for driver in sorted(changed)
    ]  # fmt: skip


def _only_node(allocation: Json) -> str:
    """Return the node of an allocation; empty if it is not for a single node."""
    terms = mappings(mapping(allocation.get("nodeSelector")).get("nodeSelectorTerms"))
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match mappings(terms[0].get("matchFields")):
        case [{"key": "metadata.name", "operator": "In", "values": [str(node)]}]:
            return node
    return ""


#: The fields of a request in v1beta1 that are in `exactly` since v1beta2.
_EXACT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations",
    "capacity",
)  # fmt: skip


def _with_items(obj: Json, path: tuple[str, ...], convert: Callable[[Json], Json]) -> Json:
    """Return an object in which the items of the list at a path are converted."""
    name, *inner = path
    if not obj.get(name):
        return obj
    if inner:
        return {**obj, name: _with_items(mapping(obj[name]), tuple(inner), convert)}
    return {**obj, name: [convert(item) for item in mappings(obj[name])]}


def _request_to_v1(request: Json) -> Json:
    exactly = {name: request[name] for name in _EXACT_FIELDS if name in request}
    others = {name: value for name, value in request.items() if name not in _EXACT_FIELDS}
    if any(value not in ("", 0, None) for value in exactly.values()):
        others["exactly"] = {"deviceClassName": "", **exactly}
    return others


def _request_to_v1beta1(request: Json) -> Json:
    others = {name: value for name, value in request.items() if name != "exactly"}
    return {"deviceClassName": "", **others, **mapping(request.get("exactly"))}


def _device_to_v1(device: Json) -> Json:
    others = {name: value for name, value in device.items() if name != "basic"}
    return {**others, **mapping(device.get("basic"))}


def _device_to_v1beta1(device: Json) -> Json:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name"), "basic": basic}


def _beta(kind: Kind, version: str, deprecated: str, removed: str) -> Kind:
    """Return a beta version of a kind, stored as v1."""
    name = f"{kind.group}/{version} {kind.kind}"
    warning = f"{name} is deprecated in {deprecated}+, unavailable in {removed}+"
    return dataclasses.replace(
        kind,
        version=version,
        schema=f"resource/{version}.{kind.kind}",
        stored_version=kind.api_version,
        deprecation_warning=warning,
    )


def _v1beta1(kind: Kind) -> Kind:
    """Return v1beta1 of a kind: requests without `exactly`, devices with `basic`."""
    beta = _beta(kind, "v1beta1", "v1.35", "v1.38")
    stored: Callable[[Json], Json] = _request_to_v1
    shown: Callable[[Json], Json] = _request_to_v1beta1
    if kind.kind == "DeviceClass":
        return beta
    path: tuple[str, ...] = ("spec", "devices", "requests")
    if kind.kind == "ResourceSlice":
        stored, shown, path = _device_to_v1, _device_to_v1beta1, ("spec", "devices")
    elif kind.kind == "ResourceClaimTemplate":
        path = ("spec", *path)
    return dataclasses.replace(
        beta,
        to_stored=functools.partial(_with_items, path=path, convert=stored),
        from_stored=functools.partial(_with_items, path=path, convert=shown),
    )


_V1: Final = (
    Kind(
        "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim",
        schema="resource/v1.ResourceClaim", subresources=("status",), returns_deleted=True,
        columns=(NAME, Column("State", _claim_state), AGE),
        status_keeps=CLIENT_METADATA,
        rules=KindRules(
            set_defaults=_set_claim_defaults, validate_create=_validate_claim,
            validate_update=fixed("spec"), validate_in_namespace=_admin_access_errors,
            subresources={
                "status": UpdateRules(
                    prepare=_drop_deallocated_devices, validate=validate_claim_status,
                    permissions=_status_permissions,
                )
            },
        ),
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
        schema="resource/v1.ResourceClaimTemplate", returns_deleted=True,
        columns=NAME_AND_AGE,
        rules=KindRules(
            set_defaults=_set_template_defaults, validate=_validate_template,
            validate_update=fixed("spec"), validate_in_namespace=_admin_access_errors,
        ),
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False,
        schema="resource/v1.ResourceSlice", generation=Generation.SPEC, fields=_SLICE_FIELDS,
        returns_deleted=True,
        columns=(
            NAME, Column("Node", ".spec.nodeName"), Column("Driver", ".spec.driver"),
            Column("Pool", ".spec.pool.name"), AGE,
        ),
        rules=KindRules(
            prepare=_set_taint_times, prepare_update=_prepare_slice_update,
            validate_create=validate_slice, validate_update=validate_slice,
            warnings=_slice_warnings,
        ),
    ),
    Kind(
        "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False,
        schema="resource/v1.DeviceClass", generation=Generation.SPEC, returns_deleted=True,
        columns=NAME_AND_AGE,
        rules=KindRules(validate=_validate_class),
    ),
)  # fmt: skip

#: The beta versions are off by default (`--runtime-config`).
KINDS: Final = (
    *_V1,
    *(_beta(kind, "v1beta2", "v1.36", "v1.39") for kind in _V1),
    *map(_v1beta1, _V1),
)
