"""Pods and their bindings.

Source: pkg/registry/core/pod/strategy.go and pkg/apis/core/v1 of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.kinds.pod_templates import set_pod_spec_defaults
from fakeapi.printing import pods as printing
from fakeapi.types import pod_resources
from fakeapi.types.columns import AGE, NAME, NONE, Column, or_if_empty, wide
from fakeapi.types.kind import (
    CLIENT_METADATA,
    NAMESPACED_FIELDS,
    Generation,
    Kind,
    KindRules,
    UpdateRules,
    flag_at,
    value_at,
)
from fakeapi.types.objects import (
    Json,
    child,
    integer,
    keep_field,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    sequence,
    text,
    texts,
)
from fakeapi.types.quantity import render
from fakeapi.validation import pod_resizes, pod_updates, pods
from fakeapi.validation.warnings import warnings_of_pod

_GATED: Final[Json] = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_or_none: Final = or_if_empty(NONE)


def _set_defaults(pod: Json) -> None:
    spec = child(pod, "spec")
    set_pod_spec_defaults(spec)
    containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
    for container in containers:
        _requests_from_limits(container)
    _pod_level_resources(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in containers:
            for port in mappings(container.get("ports")):
                if not port.get("hostPort"):
                    port["hostPort"] = port["containerPort"]
    _align_addresses(pod)


def _requests_from_limits(container: Json) -> None:
    resources = mapping(container.get("resources"))
    limits = mapping(resources.get("limits"))
    if limits:
        resources["requests"] = {**limits, **mapping(resources.get("requests"))}


def _pod_level_resources(spec: Json) -> None:
    """Set the limits of huge pages and the requests from the containers' requests (KEP-2837)."""
    resources = spec.get("resources")
    if not isinstance(resources, dict):
        return
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if limits or requests:
        pages = {
            name: render(amount)
            for name, amount in pod_resources.container_sums(spec, "limits").items()
            if name.startswith(pod_resources.HUGE_PAGES_PREFIX) and name not in requests
        }
        limits = {**pages, **limits}
        if limits:
            resources["limits"] = limits
    if not limits:
        return
    wanted = {
        name: render(amount, "binary" if name == "memory" else "decimal")
        for name, amount in pod_resources.container_sums(spec, "requests").items()
        if pod_resources.is_pod_level_resource(name)
        and not name.startswith(pod_resources.HUGE_PAGES_PREFIX)
    }
    own = {
        name: value for name, value in limits.items() if pod_resources.is_pod_level_resource(name)
    }
    filled = {**own, **wanted, **requests}
    if filled:
        resources["requests"] = filled


def _align_addresses(pod: Json) -> None:
    """Make podIP the first of podIPs; if they differ, podIP counts."""
    status = pod.get("status")
    if not isinstance(status, dict):
        return
    addresses, address = mappings(status.get("podIPs")), text(status.get("podIP"))
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def _prepare(pod: Json, now: str) -> None:
    spec = child(pod, "spec")
    if integer(spec.get("terminationGracePeriodSeconds")) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _merge_all_label_keys(spec, labels_of(pod))
    status: Json = {"phase": "Pending", "qosClass": pod_resources.qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    pod["status"] = status


def _merge_all_label_keys(spec: Json, labels: Json) -> None:
    affinity = mapping(spec.get("affinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        terms = mapping(affinity.get(name))
        for preferred in mappings(terms.get("preferredDuringSchedulingIgnoredDuringExecution")):
            _merge_label_keys(mapping(preferred.get("podAffinityTerm")), labels)
        for term in mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution")):
            _merge_label_keys(term, labels)
    for constraint in mappings(spec.get("topologySpreadConstraints")):
        _merge_label_keys(constraint, labels)


def _merge_label_keys(term: Json, labels: Json) -> None:
    """Add the pod's own values of matchLabelKeys to the selector (KEP-3633, KEP-3243)."""
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in texts(term.get(field))
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*sequence(selector.get("matchExpressions")), *added]


def _prepare_status(new: Json, old: Json, now: str) -> None:
    status, old_status = child(new, "status"), mapping(old.get("status"))
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field):
            keep_field(status, old_status, field)
    observed: dict[str, list[object]] = {}
    for condition in mappings(old_status.get("conditions")):
        generations = observed.setdefault(text(condition.get("type")), [])
        generations.append(condition.get("observedGeneration"))
    for condition in mappings(status.get("conditions")):
        generations = observed.get(text(condition.get("type")), [])
        before = generations.pop(0) if generations else None
        if not condition.get("observedGeneration") and before:
            condition["observedGeneration"] = before


def _prepare_resize(new: Json, old: Json, now: str) -> None:
    """Keep all but resources and resize policies."""
    new["spec"] = pod_resizes.resized_spec(mapping(new.get("spec")), mapping(old.get("spec")))
    _keep_all_but_spec(new, old)


def _prepare_ephemeral_containers(new: Json, old: Json, now: str) -> None:
    """Keep all but the ephemeral containers."""
    field = "ephemeralContainers"
    spec = {name: value for name, value in mapping(old.get("spec")).items() if name != field}
    containers = mapping(new.get("spec")).get(field)
    new["spec"] = {**spec, field: containers} if containers else spec
    _keep_all_but_spec(new, old)


def _keep_all_but_spec(new: Json, old: Json) -> None:
    keep_field(new, old, "status")
    for field in ("deletionTimestamp", *CLIENT_METADATA):
        keep_field(child(new, "metadata"), metadata_of(old), field)


def _warnings(pod: Json, old: Json | None) -> list[str]:
    """Return the warnings about a new pod; updates have none."""
    return warnings_of_pod(pod) if old is None else []


def _pod_ip(pod: Json) -> str:
    addresses = mappings(mapping(pod.get("status")).get("podIPs"))
    return text(addresses[0].get("ip")) if addresses else ""


_FIELDS: Final = {
    **NAMESPACED_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.host": value_at("spec", "nodeName"),
    "spec.restartPolicy": value_at("spec", "restartPolicy"),
    "spec.schedulerName": value_at("spec", "schedulerName"),
    "spec.serviceAccountName": value_at("spec", "serviceAccountName"),
    "spec.hostNetwork": flag_at("spec", "hostNetwork"),
    "status.phase": value_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.podIPs": _pod_ip,
    "status.nominatedNodeName": value_at("status", "nominatedNodeName"),
}

KINDS: Final = (
    Kind(
        "", "v1", "pods", "Pod", schema="core/v1.Pod", short_names=("po",), categories=("all",),
        subresources=(
            "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward",
            "resize", "status",
        ),
        generation=Generation.SPEC, fields=_FIELDS,
        deletes_gracefully=True, returns_deleted=True,
        columns=(
            NAME, Column("Ready", printing.ready), Column("Status", printing.reason),
            Column("Restarts", printing.restarts), AGE,
            wide("IP", ".status.podIPs[0].ip", _or_none),
            wide("Node", ".spec.nodeName", _or_none),
            wide("Nominated Node", ".status.nominatedNodeName", _or_none),
            wide("Readiness Gates", printing.readiness_gates),
        ),
        row_conditions=printing.row_conditions,
        status_keeps=("deletionTimestamp", "ownerReferences"),
        rules=KindRules(
            set_defaults=_set_defaults, prepare=_prepare, validate_create=pods.validate_create,
            validate_update=pod_updates.validate_update, warnings=_warnings,
            subresources={
                "status": UpdateRules(
                    prepare=_prepare_status, validate=pod_updates.validate_status_update
                ),
                "resize": UpdateRules(
                    prepare=_prepare_resize, validate=pod_resizes.validate_resize,
                    drops_before_ownership=True,
                ),
                "ephemeralcontainers": UpdateRules(
                    prepare=_prepare_ephemeral_containers,
                    validate=pod_updates.validate_ephemeral_containers,
                ),
            },
        ),
    ),
    Kind("", "v1", "bindings", "Binding", schema="core/v1.Binding", verbs=("create",)),
)  # fmt: skip
