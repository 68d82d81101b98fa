"""Fields that many actors read from objects: spec, owner, conditions, phase of a pod.

Source of the pod predicates: pkg/controller/controller_utils.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types.objects import (
    Json,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    text,
)

if TYPE_CHECKING:
    from fakeapi.actors.resources import Resource


def key_of(obj: Json) -> str:
    """Return `namespace/name`, or the name of an object without namespace."""
    namespace = namespace_of(obj)
    return f"{namespace}/{name_of(obj)}" if namespace else name_of(obj)


def uid_of(obj: Json) -> str:
    """Return the uid."""
    return text(metadata_of(obj).get("uid"))


def spec_of(obj: Json) -> Json:
    """Return the spec, to read."""
    return mapping(obj.get("spec"))


def status_of(obj: Json) -> Json:
    """Return the status, to read."""
    return mapping(obj.get("status"))


def annotation(obj: Json, name: str) -> str:
    """Return an annotation of the object, "" if there is none of this name."""
    return text(mapping(metadata_of(obj).get("annotations")).get(name))


def owners_of(obj: Json) -> list[Json]:
    """Return the owner references."""
    return mappings(metadata_of(obj).get("ownerReferences"))


def controller_of(obj: Json) -> Json:
    """Return the owner reference with `controller: true`, or {}."""
    return next((one for one in owners_of(obj) if one.get("controller")), {})


def owner_reference(resource: Resource, owner: Json) -> Json:
    """Return a reference to `owner` as controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition_of(obj: Json, kind: str) -> Json:
    """Return the condition of this type, or {}."""
    conditions = mappings(status_of(obj).get("conditions"))
    return next((one for one in conditions if one.get("type") == kind), {})


def is_true(obj: Json, kind: str) -> bool:
    """True if the object has a condition of this type with status "True"."""
    return condition_of(obj, kind).get("status") == "True"


def is_ready(obj: Json) -> bool:
    """True if the pod or node is ready."""
    return is_true(obj, "Ready")


def with_condition(conditions: object, condition: Json, now: str) -> list[Json]:
    """Return the conditions with this one set; a new status sets lastTransitionTime to `now`."""
    kept = mappings(conditions)
    for index, present in enumerate(kept):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            since = text(present.get("lastTransitionTime")) if same else now
            kept[index] = {**condition, "lastTransitionTime": since or now}
            return kept
    return [*kept, {**condition, "lastTransitionTime": now}]


def node_of(pod: Json) -> str:
    """Return the name of the node that the pod is bound to, "" if it is not bound."""
    return text(spec_of(pod).get("nodeName"))


def phase_of(pod: Json) -> str:
    """Return the phase of a pod, claim or volume."""
    return text(status_of(pod).get("phase"))


def has_ended(pod: Json) -> bool:
    """True if the pod's phase is Succeeded or Failed."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """True if the pod has not ended and is not being deleted."""
    return not has_ended(pod) and not is_deleting(pod)


def is_terminating(pod: Json) -> bool:
    """True if the pod is being deleted and has not ended."""
    return is_deleting(pod) and not has_ended(pod)
