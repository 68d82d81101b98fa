"""Validation of changes to pods: almost all of the spec is fixed once the pod exists.

May change: images; activeDeadlineSeconds (set or lowered); tolerations (added, other seconds);
a negative grace period to 1; scheduling gates (removed). While the pod is gated also: node selector
entries and node affinity requirements (added). nodeName changes by binding alone.

Source: ValidatePod{,Status,EphemeralContainers}Update in pkg/apis/core/validation of v1.36.3.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, required
from fakeapi.types.objects import Json, integer, keep_field, mapping, mappings, metadata_of, text
from fakeapi.validation.checks import IMMUTABLE, name_errors, required_name_errors
from fakeapi.validation.containers import validate_container, validate_volumes
from fakeapi.validation.metadata import validate_label_key
from fakeapi.validation.pods import validate_spec
from fakeapi.validation.scheduling import validate_tolerations

if TYPE_CHECKING:
    from collections.abc import Collection

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_INT32_MAX: Final = 2**31 - 1
_DIFF_LINES_MAX: Final = 400
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})

_NO_CONTAINER: Final = (
    "must match the name of an entry in spec.initContainers.name or spec.containers.name"
)
_NO_RESOURCE: Final = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests "
    "or spec.containers.resources.requests"
)
_MIRROR: Final = "kubernetes.io/config.mirror"
_EPHEMERAL: Final = "spec.ephemeralContainers"
_NOT_ALLOWED: Final = "cannot be set for an Ephemeral Container"
#: Fields that ephemeral containers do not have, in Go's order.
_REGULAR_FIELDS: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def validate_update(pod: Json, old_pod: Json) -> list[FieldError]:
    """Return the errors of an update of a pod, except for its metadata."""
    spec, old = mapping(pod.get("spec")), mapping(old_pod.get("spec"))
    if spec == old:
        return []
    errors = validate_spec(spec, "spec", is_pod=True)
    for list_name in ("containers", "initContainers"):
        new_list, old_list = mappings(spec.get(list_name)), mappings(old.get(list_name))
        if len(new_list) != len(old_list):
            why = "pod updates may not add or remove containers"
            return [*errors, forbidden(f"spec.{list_name}", why)]
        errors += [
            required(f"spec.{list_name}[{index}].image")
            for index, container in enumerate(new_list)
            if not container.get("image")
        ]
    deadline = _deadline_errors(spec, old)
    errors += deadline
    if deadline and "activeDeadlineSeconds" in spec:
        return errors
    errors += _toleration_errors(spec, old)
    errors += _gate_errors(spec, old)
    munged = _with_allowed_changes_undone(spec, old)
    if old.get("schedulingGates"):
        errors += _narrowing_errors(munged, old)
        munged = _with_narrowing_undone(munged, old)
    if munged != old:
        why = f"pod updates may not change fields other than {_CHANGEABLE}\n{_diff(old, munged)}"
        errors.append(forbidden("spec", why))
    return errors


def _deadline_errors(spec: Json, old: Json) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    before = old.get("activeDeadlineSeconds")
    if "activeDeadlineSeconds" not in spec:
        if before is None:
            return []
        return [invalid(field, None, "must not update from a positive integer to nil value")]
    deadline = integer(spec["activeDeadlineSeconds"])
    if not 0 <= deadline <= _INT32_MAX:
        return [invalid(field, deadline, f"must be between 0 and {_INT32_MAX}, inclusive")]
    if isinstance(before, int) and before < deadline:
        return [invalid(field, deadline, "must be less than or equal to previous value")]
    return []


def _toleration_errors(spec: Json, old: Json) -> list[FieldError]:
    field = "spec.tolerations"
    present = [_without_seconds(toleration) for toleration in mappings(spec.get("tolerations"))]
    for toleration in mappings(old.get("tolerations")):
        if _without_seconds(toleration) not in present:
            why = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden(field, why)]
    return validate_tolerations(mappings(spec.get("tolerations")), field)


def _without_seconds(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _gate_errors(spec: Json, old: Json) -> list[FieldError]:
    present = {text(gate.get("name")) for gate in mappings(old.get("schedulingGates"))}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{text(gate.get('name'))}'",
        )
        for index, gate in enumerate(mappings(spec.get("schedulingGates")))
        if text(gate.get("name")) not in present
    ]


def _with_allowed_changes_undone(spec: Json, old: Json) -> Json:
    munged = dict(spec)
    for list_name in ("containers", "initContainers"):
        if list_name in spec:
            pairs = zip(mappings(spec[list_name]), mappings(old.get(list_name)), strict=True)
            munged[list_name] = [{**new, "image": before.get("image")} for new, before in pairs]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        keep_field(munged, old, name)
    grace = old.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _narrowing_errors(spec: Json, old: Json) -> list[FieldError]:
    """Return the errors of changes that let a gated pod run on more nodes (KEP-3838)."""
    errors: list[FieldError] = []
    selector = mapping(spec.get("nodeSelector"))
    if any(selector.get(key) != value for key, value in mapping(old.get("nodeSelector")).items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector, why))
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms, terms = _node_terms(old), _node_terms(spec)
    if old_terms and len(terms) != len(old_terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*errors, invalid(field, terms, why)]
    for index, (term, before) in enumerate(zip(terms, old_terms, strict=False)):
        if not _only_adds(term, before):
            why = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{field}[{index}]", term, why))
    return errors


def _node_terms(spec: Json) -> list[Json]:
    node_affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return mappings(mapping(node_affinity.get(_REQUIRED)).get("nodeSelectorTerms"))


def _only_adds(term: Json, before: Json) -> bool:
    lists = ("matchExpressions", "matchFields")
    if not any(before.get(name) for name in lists):
        return not any(term.get(name) for name in lists)
    for name in lists:
        old_list = mappings(before.get(name))
        if mappings(term.get(name))[: len(old_list)] != old_list:
            return False
    return True


def _with_narrowing_undone(spec: Json, old: Json) -> Json:
    munged = dict(spec)
    keep_field(munged, old, "nodeSelector")
    affinity, old_affinity = dict(mapping(spec.get("affinity"))), mapping(old.get("affinity"))
    keep_field(affinity, old_affinity, "nodeAffinity")
    if affinity or "affinity" in old:
        munged["affinity"] = affinity
    else:
        munged.pop("affinity", None)
    return munged


def _diff(old: Json, new: Json) -> str:
    """Return a diff for people; upstream prints a diff of Go structs here.

    Of long specs it has only the lines after the first difference: it takes quadratic time.
    """
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > _DIFF_LINES_MAX:
        pairs = enumerate(zip(before, after, strict=False))
        first = next((at for at, (one, other) in pairs if one != other), 0)
        before, after = (part[first : first + _DIFF_LINES_MAX] for part in (before, after))
    changed = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    return "\n".join(changed) + "\n"


def _lines(spec: Json) -> list[str]:
    encoded = msgspec.json.encode(spec, order="sorted")
    return msgspec.json.format(encoded, indent=1).decode().split("\n")


def validate_status_update(pod: Json, old_pod: Json) -> list[FieldError]:
    """Return the errors of an update of the status, except for the metadata."""
    status, old = mapping(pod.get("status")), mapping(old_pod.get("status"))
    errors: list[FieldError] = []
    for index, condition in enumerate(mappings(status.get("conditions"))):
        path = f"status.conditions[{index}]"
        generation = integer(condition.get("observedGeneration"))
        if generation < 0:
            why = "must be a non-negative integer"
            errors.append(invalid(f"{path}.observedGeneration", generation, why))
        condition_type = text(condition.get("type"))
        if condition_type not in _SYSTEM_CONDITIONS:
            errors += validate_label_key(condition_type, f"{path}.Type")
    nominated = text(status.get("nominatedNodeName"))
    field = "status.nominatedNodeName"
    if nominated and nominated != old.get("nominatedNodeName"):
        errors += name_errors(nominated, field, names.dns_subdomain)
        if mapping(old_pod.get("spec")).get("nodeName"):
            why = "may not be set on pods that are already bound to a node"
            errors.append(forbidden(field, why))
    observed = integer(status.get("observedGeneration"))
    if observed < 0:
        why = "must be a non-negative integer"
        errors.append(invalid("status.observedGeneration", observed, why))
    if status.get("qosClass") != old.get("qosClass"):
        errors.append(invalid("status.qosClass", status.get("qosClass"), IMMUTABLE))
    return errors + _claim_status_errors(mapping(pod.get("spec")), status)


def _claim_status_errors(spec: Json, status: Json) -> list[FieldError]:
    """Return the errors of the claims of devices in a status."""
    claims = {claim.get("name") for claim in mappings(spec.get("resourceClaims"))}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(mappings(status.get("resourceClaimStatuses"))):
        path, name = f"status.resourceClaimStatuses[{index}]", text(entry.get("name"))
        if name not in claims:
            why = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{path}.name", name, why))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        claim = entry.get("resourceClaimName")
        if isinstance(claim, str):
            errors += name_errors(claim, f"{path}.resourceClaimName", names.dns_subdomain)
    extended = status.get("extendedResourceClaimStatus")
    return errors + (_extended_claim_errors(spec, extended) if isinstance(extended, dict) else [])


def _extended_claim_errors(spec: Json, status: Json) -> list[FieldError]:
    field = "status.extendedResourceClaimStatus"
    containers = [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]
    requests = {
        container.get("name"): mapping(mapping(container.get("resources")).get("requests"))
        for container in containers
    }
    entries = mappings(status.get("requestMappings"))
    errors: list[FieldError] = []
    if not entries:
        why = "at least one request mapping is required"
        errors.append(required(f"{field}.requestMappings", why))
    seen: set[tuple[str, ...]] = set()
    for index, entry in enumerate(entries):
        path = f"{field}.requestMappings[{index}]"
        keys = ("containerName", "resourceName", "requestName")
        container, resource, request = values = tuple(text(entry.get(key)) for key in keys)
        if container not in requests:
            errors.append(invalid(f"{path}.containerName", container, _NO_CONTAINER))
        elif resource not in requests[container]:
            errors.append(invalid(f"{path}.resourceName", resource, _NO_RESOURCE))
        errors += name_errors(request, f"{field}.requestName", names.dns_label)
        if values in seen:
            errors += [
                duplicate(f"{path}.{key}", value) for key, value in zip(keys, values, strict=True)
            ]
        seen.add(values)
    claim, path = text(status.get("resourceClaimName")), f"{field}.resourceClaimName"
    return errors + required_name_errors(claim, path, names.dns_subdomain)


def validate_ephemeral_containers(pod: Json, old: Json) -> list[FieldError]:
    """Return the errors of added ephemeral containers; no container may change or go."""
    if _MIRROR in mapping(metadata_of(old).get("annotations")):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    spec = mapping(pod.get("spec"))
    others = [*mappings(spec.get("containers")), *mappings(spec.get("initContainers"))]
    names = {text(container.get("name")) for container in others}
    _, volumes = validate_volumes(mappings(spec.get("volumes")), "spec.volumes")
    claims = {text(claim.get("name")) for claim in mappings(spec.get("resourceClaims"))}
    seen = set(names)
    errors: list[FieldError] = []
    for index, container in enumerate(mappings(spec.get("ephemeralContainers"))):
        path, name = f"{_EPHEMERAL}[{index}]", text(container.get("name"))
        errors += validate_container(container, path, volumes, claims)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _ephemeral_errors(container, path, names)
    return errors + _ephemeral_change_errors(spec, mapping(old.get("spec")))


def _ephemeral_errors(container: Json, path: str, names: Collection[str]) -> list[FieldError]:
    errors = []
    target = text(container.get("targetContainerName"))
    if target and target not in names:
        field = f"{path}.targetContainerName"
        errors.append(FieldError("FieldValueNotFound", field, "", target))
    errors += [
        forbidden(f"{path}.{name}", _NOT_ALLOWED) for name in _REGULAR_FIELDS if container.get(name)
    ]
    for index, mount in enumerate(mappings(container.get("volumeMounts"))):
        errors += [
            forbidden(f"{path}.volumeMounts[{index}].{name}", _NOT_ALLOWED)
            for name in ("subPath", "subPathExpr")
            if mount.get(name)
        ]
    return errors


def _ephemeral_change_errors(spec: Json, old: Json) -> list[FieldError]:
    now = {text(c.get("name")): c for c in mappings(spec.get("ephemeralContainers"))}
    errors = []
    for before in mappings(old.get("ephemeralContainers")):
        name = text(before.get("name"))
        if name not in now:
            why = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden(_EPHEMERAL, why))
        elif now[name] != before:
            why = f'existing ephemeral containers "{name}" may not be changed\n'
            errors.append(forbidden(_EPHEMERAL, why))
    return errors
