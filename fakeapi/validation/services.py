"""Validation of Services; addresses and node ports are checked where they are allocated.

Source: validateService and ValidateServiceUpdate in pkg/apis/core/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from fakeapi.types.objects import Json, integer, mapping, mappings, text, texts
from fakeapi.validation.metadata import validate_labels

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"


def has_cluster_ip(spec: Json) -> bool:
    """Return True for every type but ExternalName, so for headless Services too."""
    return spec.get("type") != "ExternalName"


def is_load_balancer(spec: Json) -> bool:
    """Return True if a load balancer outside the cluster forwards to it."""
    return spec.get("type") == "LoadBalancer"


def has_node_ports(spec: Json) -> bool:
    """Return True if the type is one that clients reach through nodes."""
    return spec.get("type") in ("LoadBalancer", "NodePort")


def is_external(spec: Json) -> bool:
    """Return True if clients outside the cluster reach it, so that it has externalTrafficPolicy."""
    return has_node_ports(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def validate_service(service: Json) -> list[FieldError]:
    """Return the errors of a Service."""
    spec = mapping(service.get("spec"))
    return [
        *_type_errors(spec),
        *_port_errors(spec),
        *validate_labels(spec.get("selector"), "spec.selector"),
        *_one_of("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES),
        *_one_of("spec.type", spec.get("type"), _TYPES),
        *_duplicate_errors(mappings(spec.get("ports"))),
        *_policy_errors(spec),
    ]


def validate_service_update(service: Json, old_service: Json) -> list[FieldError]:
    """Return the errors of an update: of the new state, and of changes that are not allowed."""
    spec, old = mapping(service.get("spec")), mapping(old_service.get("spec"))
    errors: list[FieldError] = []
    now, before = texts(spec.get("clusterIPs")), texts(old.get("clusterIPs"))
    if has_cluster_ip(spec) and has_cluster_ip(old) and now != before:
        errors.append(invalid("spec.clusterIPs[0]", now, "may not change once set"))
    chosen, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if is_load_balancer(spec) and is_load_balancer(old) and chosen != old.get("loadBalancerClass"):
        errors.append(invalid(field, chosen, "may not change once set"))
    return errors + validate_service(service)


def _type_errors(spec: Json) -> list[FieldError]:
    if has_cluster_ip(spec):
        is_headless = spec.get("clusterIP") == "None"
        if is_headless and has_node_ports(spec):
            why = f"may not be set to 'None' for {text(spec.get('type'))} services"
            return [invalid("spec.clusterIPs[0]", "None", why)]
        return [] if is_headless or spec.get("ports") else [required("spec.ports")]
    errors = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = text(spec.get("externalName")).removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + [invalid("spec.externalName", name, why) for why in names.dns_subdomain(name)]


def _port_errors(spec: Json) -> list[FieldError]:
    ports, seen = mappings(spec.get("ports")), set[str]()
    errors: list[FieldError] = []
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", text(port.get("name"))
        if not name and len(ports) > 1:
            errors.append(required(f"{field}.name"))
        elif name:
            errors += [invalid(f"{field}.name", name, why) for why in names.dns_label(name)]
            if name in seen:
                errors.append(duplicate(f"{field}.name", name))
            seen.add(name)
        errors += _number_errors(f"{field}.port", port.get("port"))
        errors += _one_of(f"{field}.protocol", port.get("protocol"), _PROTOCOLS)
        field, target = f"{field}.targetPort", port.get("targetPort")
        if isinstance(target, str):
            errors += [invalid(field, target, why) for why in names.port_name(target)]
        else:
            errors += _number_errors(field, target)
    return errors


def _number_errors(field: str, value: object) -> list[FieldError]:
    number = integer(value)
    return [] if 1 <= number <= 65535 else [invalid(field, number, _PORT_RANGE)]


def _one_of(field: str, value: object, supported: tuple[str, ...]) -> list[FieldError]:
    if value in (None, ""):
        return [required(field)]
    return [] if value in supported else [not_supported(field, value, supported)]


def _duplicate_errors(ports: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, object, object]] = set()
    for index, port in enumerate(ports):
        protocol, number, node_port = (port.get(k) for k in ("protocol", "port", "nodePort"))
        if node_port and ("nodePort", protocol, node_port) in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", node_port))
        if ("port", protocol, number) in seen:
            # The fields of a Go struct that has no names for JSON.
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number,
                     "TargetPort": 0, "NodePort": 0}  # fmt: skip
            errors.append(duplicate(f"spec.ports[{index}]", shown))
        seen |= {("nodePort", protocol, node_port), ("port", protocol, number)}
    return errors


def _policy_errors(spec: Json) -> list[FieldError]:
    """Return the errors of fields that only some types have."""
    errors: list[FieldError] = []
    if spec.get("type") == "ClusterIP":
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
            for index, port in enumerate(mappings(spec.get("ports")))
            if port.get("nodePort")
        ]
    if not is_load_balancer(spec):
        errors += [
            forbidden(f"spec.{field}", _LOAD_BALANCER_ONLY)
            for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
            if spec.get(field) is not None
        ]
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if is_external(spec):
        errors += _one_of("spec.externalTrafficPolicy", external, _POLICIES)
    elif external:
        why = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", external, why))
    if internal is not None and internal not in _POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    return errors
