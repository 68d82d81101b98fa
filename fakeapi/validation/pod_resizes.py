"""Validation of the `resize` subresource of pods, which changes cpu and memory.

Source: ValidatePodResize and its callees in pkg/apis/core/validation/validation.go, and
podResizeStrategy in pkg/registry/core/pod/strategy.go of v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import forbidden, invalid
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, text
from fakeapi.types.pod_resources import qos_class
from fakeapi.validation import pods

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError

_MIRROR: Final = "kubernetes.io/config.mirror"
_RESIZED: Final = ("resources", "resizePolicy")
_COMPUTE: Final = ("cpu", "memory")
_LISTS: Final = ("requests", "limits")
_CONTAINERS: Final = ("containers", "initContainers")
_ONLY: Final = "only cpu and memory resources are mutable"


def resized_spec(new: Json, old: Json) -> Json:
    """Return the old spec with the new resources and resize policies.

    Containers that were added, removed, renamed or moved stay as they were sent; validation refuses
    them.
    """
    for name in _CONTAINERS:
        if len(mappings(new.get(name))) != len(mappings(old.get(name))):
            return new
    spec: Json = dict(old)
    for name in _CONTAINERS:
        if name in old:
            spec[name] = _merged(new, old, name)
    spec.pop("resources", None)
    if "resources" in new:
        spec["resources"] = new["resources"]
    return spec


def _merged(new: Json, old: Json, name: str) -> list[Json]:
    wanted, containers = mappings(new.get(name)), mappings(old.get(name))
    if [c.get("name") for c in wanted] != [c.get("name") for c in containers]:
        return wanted
    return [
        {
            **{part: value for part, value in before.items() if part not in _RESIZED},
            **{part: after[part] for part in _RESIZED if part in after},
        }
        for after, before in zip(wanted, containers, strict=True)
    ]


def validate_resize(pod: Json, old_pod: Json) -> list[FieldError]:
    """Return the errors of a resize of a pod."""
    spec, old = mapping(pod.get("spec")), mapping(old_pod.get("spec"))
    if _MIRROR in mapping(metadata_of(old_pod).get("annotations")):
        return [forbidden("", "static pods cannot be resized")]
    if mapping(old.get("os")).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors = pods.validate_spec(spec, "spec", is_pod=True)
    before = text(mapping(old_pod.get("status")).get("qosClass")) or qos_class(old)
    if before != qos_class(spec):
        shown = text(mapping(pod.get("status")).get("qosClass"))
        errors.append(
            invalid("spec", shown, "Pod QOS Class may not change as a result of resizing")
        )
    if not _is_supported(old_pod):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    errors += _pod_level_errors(spec, old)
    order = _order_errors(spec, old)
    if order:
        return errors + order
    for name in reversed(_CONTAINERS):
        errors += _removal_errors(spec, old, name)
    for name in _CONTAINERS:
        errors += _other_errors(spec, old, name)
    return errors


def _is_supported(pod: Json) -> bool:
    """True if the node can resize, according to the status of the first running container."""
    for status in mappings(mapping(pod.get("status")).get("containerStatuses")):
        if mapping(status.get("state")).get("running") is not None:
            return status.get("resources") is not None
    return True


def _pod_level_errors(spec: Json, old: Json) -> list[FieldError]:
    resources, before = spec.get("resources"), old.get("resources")
    if before is not None and resources is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = [
        forbidden(f"spec.resources.{which}", f"pod-level resource {which} cannot be removed")
        for which in _LISTS
        if mapping(mapping(before).get(which)).keys() - mapping(mapping(resources).get(which))
    ]
    if _without_compute(mapping(resources)) != _without_compute(mapping(before)):
        errors.append(forbidden("spec", f"{_ONLY} at pod-level"))
    return errors


def _order_errors(spec: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in _CONTAINERS:
        wanted, containers = mappings(spec.get(name)), mappings(old.get(name))
        if len(wanted) != len(containers):
            errors.append(
                forbidden(f"spec.{name}", f"{name} may not be added or removed on resize")
            )
            continue
        errors += [
            forbidden(f"spec.{name}[{i}].name", f"{name} may not be renamed or reordered on resize")
            for i, (after, before) in enumerate(zip(wanted, containers, strict=True))
            if after.get("name") != before.get("name")
        ]
    return errors


def _removal_errors(spec: Json, old: Json, name: str) -> list[FieldError]:
    errors: list[FieldError] = []
    pairs = zip(mappings(spec.get(name)), mappings(old.get(name)), strict=True)
    for i, (after, before) in enumerate(pairs):
        for which in _LISTS:
            wanted = mapping(mapping(after.get("resources")).get(which))
            had = mapping(mapping(before.get("resources")).get(which))
            if had.keys() - wanted:
                path = f"spec.{name}[{i}].resources.{which}"
                errors.append(forbidden(path, f"resource {which} cannot be removed"))
    return errors


def _other_errors(spec: Json, old: Json, name: str) -> list[FieldError]:
    """Return the errors of changes to anything but cpu and memory."""
    errors: list[FieldError] = []
    pairs = zip(mappings(spec.get(name)), mappings(old.get(name)), strict=True)
    for i, (after, before) in enumerate(pairs):
        path = f"spec.{name}[{i}]"
        if _without_resized(after) != _without_resized(before):
            errors.append(
                forbidden("spec", _ONLY)
                if name == "containers"
                else forbidden(
                    path, "only cpu and memory resources for init or sidecar containers are mutable"
                )
            )
        if name == "initContainers" and after != before and _may_not_restart(after):
            errors.append(
                forbidden(
                    path,
                    "non-sidecar init containers with a resize policy of RestartContainer cannot "
                    "be resized",
                )
            )
    return errors


def _without_resized(container: Json) -> Json:
    return {**container, "resources": _without_compute(mapping(container.get("resources")))}


def _without_compute(resources: Json) -> Json:
    return {
        which: {
            name: amount
            for name, amount in mapping(resources.get(which)).items()
            if name not in _COMPUTE
        }
        for which in _LISTS
    }


def _may_not_restart(container: Json) -> bool:
    return container.get("restartPolicy") != "Always" and any(
        policy.get("restartPolicy") == "RestartContainer"
        for policy in mappings(container.get("resizePolicy"))
    )
