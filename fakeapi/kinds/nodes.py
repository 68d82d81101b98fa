"""Nodes.

Source: pkg/apis/core/{v1,validation} and pkg/registry/core/node of Kubernetes v1.36.3.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types.columns import AGE, NAME, NONE, UNKNOWN, Column, find, or_else, or_if_empty, wide
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid
from fakeapi.types.gotext import quoted
from fakeapi.types.kind import NAME_FIELDS, Kind, KindRules, UpdateRules, flag_at
from fakeapi.types.objects import Json, child, labels_of, mapping, mappings, text, texts
from fakeapi.validation.resources import validate_amounts
from fakeapi.validation.scheduling import validate_taints

_FEATURE: Final = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII).fullmatch
_NO_FEATURE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and "
    "slashes"
)
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"
_or_unknown: Final = or_if_empty(UNKNOWN)


def _set_defaults(node: Json) -> None:
    """Copy capacity to allocatable, and make podCIDR the first of podCIDRs."""
    status, spec = child(node, "status"), child(node, "spec")
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(mapping(status["capacity"]))
    ranges, first = texts(spec.get("podCIDRs")), text(spec.get("podCIDR"))
    if first and ranges[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif ranges and ranges[0]:
        spec["podCIDR"] = ranges[0]


def _validate(node: Json) -> list[FieldError]:
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    errors = validate_taints(mappings(spec.get("taints")), "metadata.taints")
    errors += validate_amounts(status.get("capacity"), "status.capacity")
    errors += validate_amounts(status.get("allocatable"), "status.allocatable")
    return errors + _feature_errors(texts(status.get("declaredFeatures")))


def _feature_errors(features: list[str]) -> list[FieldError]:
    """Return the errors of the declared features, which are sorted."""
    errors: list[FieldError] = []
    for index, feature in enumerate(features):
        path = f"status.declaredFeatures[{index}]"
        if not _FEATURE(feature):
            why = f"invalid feature name {quoted(feature)}: {_NO_FEATURE}"
            errors.append(invalid(path, feature, why))
        before = features[index - 1] if index else ""
        if index and feature == before:
            errors.append(duplicate(path, feature))
        elif feature < before:
            errors.append(invalid(path, feature, "list must be sorted alphabetically"))
    return errors


def _validate_status(new: Json, old: Json) -> list[FieldError]:
    return _validate(new)


def _validate_update(node: Json, old_node: Json) -> list[FieldError]:
    """Return the errors of changed fields that are set only once, then the errors of all updates.

    Upstream checks an update as a new object, too.
    """
    spec, old = mapping(node.get("spec")), mapping(old_node.get("spec"))
    return _validate(node) + [
        forbidden(f"spec.{field}", f'node updates may not change {shown} except from "" to valid')
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID"))
        if old.get(field) and spec.get(field) != old.get(field)
    ]


def _node_status(node: Json, _now_seconds: float) -> str:
    ready = find(node, '.status.conditions[?(@.type=="Ready")].status')
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    unschedulable = find(node, ".spec.unschedulable") is True
    return f"{status},SchedulingDisabled" if unschedulable else status


def _node_roles(node: Json, _now_seconds: float) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(text(labels.get(_ROLE_LABEL)))
    return ",".join(sorted(roles - {""})) or NONE


def _address(kind: str) -> str:
    """Return the path of the node's first address of one kind."""
    return f'.status.addresses[?(@.type=="{kind}")].address'


def _kernel(info: object) -> str:
    architecture = mapping(info).get("architecture")
    kernel = text(mapping(info).get("kernelVersion")) or UNKNOWN
    return f"{kernel} ({architecture})" if architecture else kernel


KINDS: Final = (
    Kind(
        "", "v1", "nodes", "Node", namespaced=False, schema="core/v1.Node", short_names=("no",),
        subresources=("status",), keeps_status_on_create=True,
        fields={**NAME_FIELDS, "spec.unschedulable": flag_at("spec", "unschedulable")},
        columns=(
            NAME, Column("Status", _node_status), Column("Roles", _node_roles), AGE,
            Column("Version", ".status.nodeInfo.kubeletVersion"),
            wide("Internal-IP", _address("InternalIP"), or_else(NONE)),
            wide("External-IP", _address("ExternalIP"), or_else(NONE)),
            wide("OS-Image", ".status.nodeInfo.osImage", _or_unknown),
            wide("Kernel-Version", ".status.nodeInfo", _kernel),
            wide("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", _or_unknown),
        ),
        rules=KindRules(
            set_defaults=_set_defaults, validate=_validate, validate_update=_validate_update,
            subresources={"status": UpdateRules(validate=_validate_status)},
        ),
    ),
)  # fmt: skip
