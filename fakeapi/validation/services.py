"""Validation of Services.

Source: validateService and ValidateServiceUpdate in pkg/apis/core/validation of v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from fakeapi.types.objects import Json, integer, mapping, mappings, metadata_of, text, texts
from fakeapi.types.service_fields import (
    EXTERNAL_NAME,
    LOAD_BALANCER,
    cluster_ips,
    is_headless,
    is_reached_from_outside,
    needs_cluster_ip,
    needs_health_check,
    opens_node_ports,
    ports_of,
    type_of,
)
from fakeapi.validation.addresses import (
    address_errors,
    endpoint_errors,
    parsed_sloppily,
    range_errors,
)
from fakeapi.validation.metadata import validate_labels
from fakeapi.validation.service_addresses import cluster_ip_changes, cluster_ip_errors

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES: Final = ("Proxy", "VIP")
_AFFINITY_SECONDS_MAX: Final = 86400
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCED_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_NOT_FOR_NAMES: Final = "may not be set for ExternalName services"
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"


def validate_service(service: Json, old_service: Json | None = None) -> list[FieldError]:
    """A Service as it is; what an old one had already, new rules do not take from it."""
    spec = mapping(service.get("spec"))
    old = None if old_service is None else mapping(old_service.get("spec"))
    return [
        *_annotation_errors(service),
        *_type_dependent_errors(spec),
        *_port_errors(spec),
        *validate_labels(spec.get("selector"), "spec.selector"),
        *_affinity_errors(spec),
        *cluster_ip_errors(spec, old),
        *_external_ip_errors(spec, old),
        *_one_of("spec.type", spec.get("type"), _TYPES),
        *_node_port_errors(spec),
        *_duplicate_port_errors(spec),
        *_source_range_errors(service, old_service),
        *_balancer_errors(spec),
        *_class_errors(spec),
        *_traffic_errors(spec),
    ]


def validate_service_update(service: Json, old_service: Json) -> list[FieldError]:
    """A new state of one."""
    spec, old = mapping(service.get("spec")), mapping(old_service.get("spec"))
    errors = cluster_ip_changes(spec, old)
    if type_of(spec) == type_of(old) == LOAD_BALANCER:
        now, before = spec.get("loadBalancerClass"), old.get("loadBalancerClass")
        if now != before:
            errors.append(invalid("spec.loadBalancerClass", now, "may not change once set"))
    errors += _class_errors(spec)
    field = "healthCheckNodePort"
    stays = needs_health_check(spec) and needs_health_check(old)
    if stays and spec.get(field) != old.get(field):
        errors.append(forbidden(f"spec.{field}", "field is immutable"))
    return errors + validate_service(service, old_service)


def validate_service_status(service: Json, old_service: Json) -> list[FieldError]:
    """What a load balancer says of itself."""
    field = "status.loadBalancer.ingress"
    entries, old_entries = _ingress(service), _ingress(old_service)
    if type_of(mapping(service.get("spec"))) != LOAD_BALANCER:
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        return [forbidden(field, why)] if entries else []
    known = [text(entry.get("ip")) for entry in old_entries if entry.get("ip")]
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        errors += _ingress_errors(f"{field}[{index}]", entry, known)
    return errors


def _ingress(service: Json) -> list[Json]:
    balancer = mapping(mapping(service.get("status")).get("loadBalancer"))
    return mappings(balancer.get("ingress"))


def _ingress_errors(field: str, entry: Json, known: list[str]) -> list[FieldError]:
    address, mode, host = text(entry.get("ip")), entry.get("ipMode"), text(entry.get("hostname"))
    errors = address_errors(f"{field}.ip", address, known) if address else []
    if mode is None:
        if address:
            errors.append(required(f"{field}.ipMode", "must be specified when `ip` is set"))
    elif not address:
        errors.append(forbidden(f"{field}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in _IP_MODES:
        errors.append(not_supported(f"{field}.ipMode", mode, _IP_MODES))
    if host:
        errors += [invalid(f"{field}.hostname", host, why) for why in names.dns_subdomain(host)]
        if parsed_sloppily(host) is not None:
            why = "must be a DNS name, not an IP address"
            errors.append(invalid(f"{field}.hostname", host, why))
    return errors


def _one_of(field: str, value: object, known: tuple[str, ...]) -> list[FieldError]:
    if value in (None, ""):
        return [required(field)]
    return [] if value in known else [not_supported(field, value, known)]


def _annotation_errors(service: Json) -> list[FieldError]:
    annotations = mapping(metadata_of(service).get("annotations"))
    hints, mode = annotations.get(_HINTS), annotations.get(_MODE)
    if hints is None or mode is None or hints == mode:
        return []
    why = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", mode, why)]


def _type_dependent_errors(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if needs_cluster_ip(spec):
        if not ports_of(spec) and not is_headless(spec):
            errors.append(required("spec.ports"))
        if opens_node_ports(spec) and is_headless(spec):
            why = f"may not be set to 'None' for {type_of(spec)} services"
            errors.append(invalid("spec.clusterIPs[0]", "None", why))
        return errors
    if cluster_ips(spec):
        errors.append(forbidden("spec.clusterIPs", _NOT_FOR_NAMES))
    if spec.get("ipFamilies"):
        errors.append(forbidden("spec.ipFamilies", _NOT_FOR_NAMES))
    if spec.get("ipFamilyPolicy") is not None:
        errors.append(forbidden("spec.ipFamilyPolicy", _NOT_FOR_NAMES))
    name = text(spec.get("externalName")).removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + [invalid("spec.externalName", name, why) for why in names.dns_subdomain(name)]


def _port_errors(spec: Json) -> list[FieldError]:
    ports, seen = ports_of(spec), set[str]()
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
        errors += _number_errors(f"{field}.port", integer(port.get("port")))
        errors += _one_of(f"{field}.protocol", port.get("protocol"), _PROTOCOLS)
        errors += _target_errors(f"{field}.targetPort", port.get("targetPort"))
        protocol = port.get("appProtocol")
        if protocol is not None:
            complaints = names.qualified_name(text(protocol))
            errors += [invalid(f"{field}.appProtocol", protocol, why) for why in complaints]
    return errors


def _number_errors(field: str, number: int) -> list[FieldError]:
    return [] if 1 <= number <= 65535 else [invalid(field, number, _PORT_RANGE)]


def _target_errors(field: str, target: object) -> list[FieldError]:
    if isinstance(target, str):
        return [invalid(field, target, why) for why in names.port_name(target)]
    return _number_errors(field, integer(target))


def _affinity_errors(spec: Json) -> list[FieldError]:
    affinity = spec.get("sessionAffinity")
    errors = _one_of("spec.sessionAffinity", affinity, _AFFINITIES)
    if affinity == "ClientIP":
        config = mapping(mapping(spec.get("sessionAffinityConfig")).get("clientIP"))
        seconds = integer(config.get("timeoutSeconds"))
        if not 0 < seconds <= _AFFINITY_SECONDS_MAX:
            why = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
            field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            errors.append(invalid(field, seconds, why))
    return errors


def _external_ip_errors(spec: Json, old: Json | None) -> list[FieldError]:
    known = texts(old.get("externalIPs")) if old else []
    errors: list[FieldError] = []
    for index, address in enumerate(texts(spec.get("externalIPs"))):
        field = f"spec.externalIPs[{index}]"
        errors += address_errors(field, address, known) or endpoint_errors(field, address)
    return errors


def _node_port_errors(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    ports = [
        (f"spec.ports[{index}].nodePort", port, integer(port.get("nodePort")))
        for index, port in enumerate(ports_of(spec))
        if port.get("nodePort")
    ]
    if type_of(spec) == "ClusterIP":
        why = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(field, why) for field, _, _ in ports]
    seen: set[tuple[object, int]] = set()
    for field, port, number in ports:
        pair = (port.get("protocol"), number)
        if pair in seen:
            errors.append(duplicate(field, number))
        seen.add(pair)
    return errors


def _duplicate_port_errors(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[object, int]] = set()
    for index, port in enumerate(ports_of(spec)):
        pair = (port.get("protocol"), integer(port.get("port")))
        if pair in seen:
            # The fields of a Go struct that has no names for JSON.
            shown = {
                "Name": "",
                "Protocol": pair[0],
                "AppProtocol": None,
                "Port": pair[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            errors.append(duplicate(f"spec.ports[{index}]", shown))
        seen.add(pair)
    return errors


def _source_range_errors(service: Json, old_service: Json | None) -> list[FieldError]:
    """From which addresses a load balancer lets traffic in; an annotation says so as well."""
    spec, old = mapping(service.get("spec")), mapping((old_service or {}).get("spec"))
    ranges = [value.strip() for value in texts(spec.get("loadBalancerSourceRanges"))]
    field = "spec.LoadBalancerSourceRanges"
    given = mapping(metadata_of(service).get("annotations")).get(_SOURCE_RANGES)
    if not ranges and given is None:
        return []
    if not ranges:
        field = f"metadata.annotations[{_SOURCE_RANGES}]"
    errors = [] if type_of(spec) == LOAD_BALANCER else [forbidden(field, _BALANCED_ONLY)]
    if ranges:
        known = [value.strip() for value in texts(old.get("loadBalancerSourceRanges"))]
        for index, value in enumerate(ranges):
            errors += range_errors(f"{field}[{index}]", value, known)
        return errors
    before = mapping(metadata_of(old_service or {}).get("annotations")).get(_SOURCE_RANGES)
    listed = text(given).strip() if before != given else ""
    for value in listed.split(",") if listed else []:
        errors += range_errors(field, value.strip())
    return errors


def _balancer_errors(spec: Json) -> list[FieldError]:
    field = "spec.allocateLoadBalancerNodePorts"
    if spec.get("allocateLoadBalancerNodePorts") is not None and type_of(spec) != LOAD_BALANCER:
        return [forbidden(field, _BALANCED_ONLY)]
    return []


def _class_errors(spec: Json) -> list[FieldError]:
    value, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if value is None:
        return []
    if type_of(spec) != LOAD_BALANCER:
        return [forbidden(field, _BALANCED_ONLY)]
    return [invalid(field, value, why) for why in names.qualified_name(text(value))]


def _traffic_errors(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    external, field = spec.get("externalTrafficPolicy"), "spec.externalTrafficPolicy"
    if is_reached_from_outside(spec):
        errors += _one_of(field, external, _POLICIES)
    elif external:
        why = "may only be set for externally-accessible services"
        errors.append(invalid(field, external, why))
    errors += _health_check_errors(spec)
    internal, field = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if internal is None and type_of(spec) in _TYPES and type_of(spec) != EXTERNAL_NAME:
        errors.append(required(field))
    elif internal is not None and internal not in _POLICIES:
        errors.append(not_supported(field, internal, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def _health_check_errors(spec: Json) -> list[FieldError]:
    field, number = "spec.healthCheckNodePort", integer(spec.get("healthCheckNodePort"))
    if needs_health_check(spec):
        return _number_errors(field, number) if number else [required(field)]
    why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    return [invalid(field, number, why)] if number else []
