"""Validation of a new pod, or of the pod template inside a workload.

Source: ValidatePodCreate and ValidatePodSpec in pkg/apis/core/validation/validation.go of v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
)
from fakeapi.types.objects import Json, integer, mapping, mappings, text
from fakeapi.validation.checks import name_errors, required_choice_errors
from fakeapi.validation.containers import (
    validate_containers,
    validate_images,
    validate_init_containers,
    validate_volumes,
)
from fakeapi.validation.metadata import validate_label_key, validate_labels
from fakeapi.validation.resources import validate_overhead, validate_pod_resources
from fakeapi.validation.scheduling import (
    validate_affinity,
    validate_gates,
    validate_tolerations,
    validate_topology_spread,
)

_POLICIES: Final = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_HOSTNAME_MAX: Final = 64
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_INT32_MAX: Final = 2**31 - 1
DEADLINE_RANGE: Final = f"must be between 1 and {_INT32_MAX}, inclusive"
_NAMES: Final = {
    "serviceAccountName": names.dns_subdomain,
    "nodeName": names.dns_subdomain,
    "priorityClassName": names.dns_subdomain,
    "runtimeClassName": names.dns_subdomain,
    "hostname": names.dns_label,
    "subdomain": names.dns_label,
}


def validate_create(pod: Json) -> list[FieldError]:
    """Return the errors of a new pod, except for its metadata."""
    spec = mapping(pod.get("spec"))
    errors = validate_spec(spec, "spec", is_pod=True)
    for name in ("containers", "initContainers"):
        errors += validate_images(mappings(spec.get(name)), f"spec.{name}")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", why))
    return errors


def validate_spec(spec: Json, field: str, *, is_pod: bool) -> list[FieldError]:
    """Return the errors of a pod's spec, or of a template's spec if `is_pod` is False."""
    errors: list[FieldError] = []
    volume_errors, volumes = validate_volumes(mappings(spec.get("volumes")), f"{field}.volumes")
    errors += volume_errors
    claims = mappings(spec.get("resourceClaims"))
    claim_names = {text(claim["name"]) for claim in claims if claim.get("name")}
    errors += _claim_errors(claims, f"{field}.resourceClaims")
    containers = mappings(spec.get("containers"))
    errors += validate_containers(containers, f"{field}.containers", volumes, claim_names)
    errors += validate_init_containers(
        mappings(spec.get("initContainers")),
        f"{field}.initContainers",
        containers,
        volumes,
        claim_names,
    )
    errors += validate_pod_resources(spec, f"{field}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network_errors(containers, f"{field}.containers", is_pod=is_pod)
    for name, policies in _POLICIES.items():
        errors += required_choice_errors(text(spec.get(name)), f"{field}.{name}", policies)
    return errors + _scheduling_errors(spec, field) + _name_errors(spec, field)


def _scheduling_errors(spec: Json, field: str) -> list[FieldError]:
    errors = validate_labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    if "affinity" in spec:
        errors += validate_affinity(mapping(spec["affinity"]), f"{field}.affinity")
    for index, gate in enumerate(mappings(spec.get("readinessGates"))):
        condition = text(gate.get("conditionType"))
        errors += validate_label_key(condition, f"{field}.readinessGates[{index}].conditionType")
    if "schedulingGates" in spec:
        errors += validate_gates(mappings(spec["schedulingGates"]), f"{field}.schedulingGates")
    if "topologySpreadConstraints" in spec:
        path = f"{field}.topologySpreadConstraints"
        errors += validate_topology_spread(mappings(spec["topologySpreadConstraints"]), path)
    errors += validate_tolerations(mappings(spec.get("tolerations")), f"{field}.tolerations")
    if "preemptionPolicy" in spec:
        policy, path = text(spec["preemptionPolicy"]), f"{field}.preemptionPolicy"
        errors += required_choice_errors(policy, path, PREEMPTION_POLICIES)
    errors += _host_user_errors(spec, field)
    if "overhead" in spec:
        errors += validate_overhead(spec["overhead"], f"{field}.overhead")
    if "schedulingGroup" in spec:
        errors += _group_errors(mapping(spec["schedulingGroup"]), f"{field}.schedulingGroup")
    return errors


def _group_errors(group: Json, field: str) -> list[FieldError]:
    name = group.get("podGroupName")
    if not isinstance(name, str):
        return [invalid(f"{field}.podGroupName", None, "must specify one of: `podGroupName`")]
    return name_errors(name, f"{field}.podGroupName", names.dns_subdomain)


def _name_errors(spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for part, grammar in _NAMES.items():
        if spec.get(part):
            errors += name_errors(text(spec[part]), f"{field}.{part}", grammar)
    errors += _hostname_errors(spec, f"{field}.hostnameOverride")
    if "activeDeadlineSeconds" in spec:
        deadline = integer(spec["activeDeadlineSeconds"])
        if not 1 <= deadline <= _INT32_MAX:
            errors.append(invalid(f"{field}.activeDeadlineSeconds", deadline, DEADLINE_RANGE))
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{field}.terminationGracePeriodSeconds"))
    return errors


def _host_user_errors(spec: Json, field: str) -> list[FieldError]:
    """Return the errors of a pod with users of its own and something of the host."""
    if spec.get("hostUsers") is not False:
        return []
    namespaces = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    fields = [f"{field}.{shown}" for name, shown in namespaces if spec.get(name)]
    fields += [
        f"{field}.{name}[{index}].volumeDevices"
        for name in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(mappings(spec.get(name)))
        if container.get("volumeDevices")
    ]
    return [forbidden(path, "when `hostUsers` is false") for path in fields]


def _hostname_errors(spec: Json, field: str) -> list[FieldError]:
    name = spec.get("hostnameOverride")
    if not isinstance(name, str):
        return []
    errors = [
        forbidden(field, f"may not be specified when {other} is true")
        for other in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(other)
    ]
    if len(name) > _HOSTNAME_MAX:
        errors.append(too_long(field, _HOSTNAME_MAX))
    return errors + name_errors(name, field, names.dns_subdomain)


def _claim_errors(claims: list[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        name = text(claim.get("name"))
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in seen:
            errors.append(duplicate(f"{path}.name", name))
        else:
            errors += name_errors(name, f"{path}.name", names.dns_label)
        seen.add(name)
        sources = ("resourceClaimName", "resourceClaimTemplateName")
        sources_set = [part for part in sources if part in claim]
        shown = {
            "Name": name,
            "ResourceClaimName": claim.get("resourceClaimName"),
            "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
        }
        if len(sources_set) == 2:
            why = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            errors.append(invalid(path, shown, why))
        elif not sources_set:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(path, shown, why))
        for part in sources_set:
            errors += name_errors(text(claim[part]), f"{path}.{part}", names.dns_subdomain)
    return errors


def _host_network_errors(containers: list[Json], field: str, *, is_pod: bool) -> list[FieldError]:
    errors = []
    why = "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(containers):
        for position, port in enumerate(mappings(container.get("ports"))):
            host, own = integer(port.get("hostPort")), integer(port.get("containerPort"))
            if host != own and (is_pod or host):
                path = f"{field}[{index}].ports[{position}].hostPort"
                errors.append(invalid(path, host, why))
    return errors
