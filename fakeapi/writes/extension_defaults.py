"""Defaults of kinds that have nothing to do with pods' specs: networking, permissions, autoscaling.

Applied like those of defaults.py, on decoded objects, in place, and twice as well as once.
Source: pkg/apis/{autoscaling/v2,discovery/v1,networking/v1,rbac/v1}/defaults.go of v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.objects import Json, child, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.kind import ResourceKey

_PERMISSIONS: Final = "rbac.authorization.k8s.io"
_CPU_UTILIZATION_PERCENT: Final = 80
_PERCENT: Final[Json] = {"type": "Percent", "value": 100, "periodSeconds": 15}
_PODS: Final[Json] = {"type": "Pods", "value": 4, "periodSeconds": 15}


def _fill(obj: Json, name: str, value: object) -> None:
    """Set a field that is missing or null."""
    if obj.get(name) is None:
        obj[name] = value


def _autoscaler(autoscaler: Json) -> None:
    spec = child(autoscaler, "spec")
    _fill(spec, "minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_UTILIZATION_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        up, down = child(behavior, "scaleUp"), child(behavior, "scaleDown")
        _fill(up, "stabilizationWindowSeconds", 0)
        for rules, policies in ((up, (_PODS, _PERCENT)), (down, (_PERCENT,))):
            _fill(rules, "selectPolicy", "Max")
            if not rules.get("policies"):
                rules["policies"] = [dict(policy) for policy in policies]


def _network_policy(policy: Json) -> None:
    spec = child(policy, "spec")
    if not spec.get("policyTypes"):
        egress = ["Egress"] if spec.get("egress") else []
        spec["policyTypes"] = ["Ingress", *egress]
    for rule in mappings(spec.get("ingress")) + mappings(spec.get("egress")):
        for port in mappings(rule.get("ports")):
            _fill(port, "protocol", "TCP")


def _ingress_class(ingress_class: Json) -> None:
    parameters = mapping(ingress_class.get("spec")).get("parameters")
    if isinstance(parameters, dict):
        _fill(parameters, "scope", "Cluster")


def _endpoint_slice(endpoint_slice: Json) -> None:
    for port in mappings(endpoint_slice.get("ports")):
        _fill(port, "name", "")
        _fill(port, "protocol", "TCP")


def _role_binding(binding: Json) -> None:
    role = child(binding, "roleRef")
    if not role.get("apiGroup"):
        role["apiGroup"] = _PERMISSIONS
    for subject in mappings(binding.get("subjects")):
        if text(subject.get("kind")) in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _PERMISSIONS


BY_RESOURCE: Final[dict[ResourceKey, Callable[[Json], None]]] = {
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("discovery.k8s.io", "endpointslices"): _endpoint_slice,
    ("networking.k8s.io", "ingressclasses"): _ingress_class,
    ("networking.k8s.io", "networkpolicies"): _network_policy,
    (_PERMISSIONS, "clusterrolebindings"): _role_binding,
    (_PERMISSIONS, "rolebindings"): _role_binding,
}
