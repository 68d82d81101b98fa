"""Services and the endpoints behind them.

Source: pkg/apis/core/{v1,validation} and pkg/registry/core/service of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.kinds.service_addresses import (
    ALLOCATION,
    has_cluster_ip,
    has_node_ports,
    is_external,
    is_load_balancer,
)
from fakeapi.types import names
from fakeapi.types.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    find,
    find_text,
    first_items,
    labels_text,
    load_balancers,
    or_else,
    wide,
)
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, required
from fakeapi.types.kind import NAMESPACED_FIELDS, Generation, Kind, KindRules, value_at
from fakeapi.types.objects import Json, child, mapping, mappings, set_defaults, text, texts
from fakeapi.validation.checks import (
    name_errors,
    optional_choice_errors,
    port_errors,
    required_choice_errors,
    required_name_errors,
)
from fakeapi.validation.containers import PROTOCOLS
from fakeapi.validation.metadata import validate_labels

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_SERVING_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")


def _set_service_defaults(service: Json) -> None:
    spec = child(service, "spec")
    set_defaults(spec, sessionAffinity="None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = child(child(spec, "sessionAffinityConfig"), "clientIP")
        set_defaults(client, timeoutSeconds=10800)
    set_defaults(spec, type="ClusterIP")
    service_type = spec["type"]
    for port in mappings(spec.get("ports")):
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    if is_external(spec):
        set_defaults(spec, externalTrafficPolicy="Cluster")
    if service_type in _SERVING_TYPES and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if service_type == "LoadBalancer":
        set_defaults(spec, allocateLoadBalancerNodePorts=True)
        balancer = mapping(mapping(service.get("status")).get("loadBalancer"))
        for entry in mappings(balancer.get("ingress")):
            if entry.get("ip") and entry.get("ipMode") is None:
                entry["ipMode"] = "VIP"


def _set_endpoints_defaults(endpoints: Json) -> None:
    for subset in mappings(endpoints.get("subsets")):
        for port in mappings(subset.get("ports")):
            set_defaults(port, protocol="TCP")


def _set_slice_defaults(endpoint_slice: Json) -> None:
    for port in mappings(endpoint_slice.get("ports")):
        set_defaults(port, name="", protocol="TCP")


def _prepare_service_update(new: Json, old: Json, now: str) -> None:
    """Empty status.loadBalancer if the Service is of another type now."""
    status = mapping(new.get("status"))
    if mapping(new.get("spec")).get("type") != "LoadBalancer" and "loadBalancer" in status:
        new["status"] = {**status, "loadBalancer": {}}


def _validate_service(service: Json) -> list[FieldError]:
    spec = mapping(service.get("spec"))
    return [
        *_type_errors(spec),
        *_port_errors(spec),
        *validate_labels(spec.get("selector"), "spec.selector"),
        *required_choice_errors(spec.get("sessionAffinity"), "spec.sessionAffinity", _AFFINITIES),
        *required_choice_errors(spec.get("type"), "spec.type", _TYPES),
        *_duplicate_errors(mappings(spec.get("ports"))),
        *_policy_errors(spec),
    ]


def _validate_service_update(service: Json, old_service: Json) -> list[FieldError]:
    """Return the errors of changes that are not allowed, then the errors of the new state."""
    spec, old = mapping(service.get("spec")), mapping(old_service.get("spec"))
    errors: list[FieldError] = []
    now, before = texts(spec.get("clusterIPs")), texts(old.get("clusterIPs"))
    if has_cluster_ip(spec) and has_cluster_ip(old) and now != before:
        errors.append(invalid("spec.clusterIPs[0]", now, "may not change once set"))
    chosen, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if is_load_balancer(spec) and is_load_balancer(old) and chosen != old.get("loadBalancerClass"):
        errors.append(invalid(field, chosen, "may not change once set"))
    return errors + _validate_service(service)


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
    return errors + required_name_errors(name, "spec.externalName", names.dns_subdomain)


def _port_errors(spec: Json) -> list[FieldError]:
    ports, seen = mappings(spec.get("ports")), set[str]()
    errors: list[FieldError] = []
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", text(port.get("name"))
        if not name and len(ports) > 1:
            errors.append(required(f"{field}.name"))
        elif name:
            errors += name_errors(name, f"{field}.name", names.dns_label)
            if name in seen:
                errors.append(duplicate(f"{field}.name", name))
            seen.add(name)
        errors += port_errors(port.get("port"), f"{field}.port")
        errors += required_choice_errors(port.get("protocol"), f"{field}.protocol", PROTOCOLS)
        field, target = f"{field}.targetPort", port.get("targetPort")
        if isinstance(target, str):
            errors += name_errors(target, field, names.port_name)
        else:
            errors += port_errors(target, field)
    return errors


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
        errors += required_choice_errors(external, "spec.externalTrafficPolicy", _POLICIES)
    elif external:
        why = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", external, why))
    return errors + optional_choice_errors(internal, "spec.internalTrafficPolicy", _POLICIES)


def _external_ip(service: Json, _now_seconds: float) -> str:
    kind = find_text(service, ".spec.type")
    own = ",".join(texts(find(service, ".spec.externalIPs")))
    if kind in ("ClusterIP", "NodePort"):
        return own or NONE
    if kind == "LoadBalancer":
        addresses = load_balancers(find(service, ".status.loadBalancer.ingress"))
        return ",".join(part for part in (addresses, own) if part) or "<pending>"
    return find_text(service, ".spec.externalName") if kind == "ExternalName" else UNKNOWN


def _service_ports(ports: object) -> str:
    return ",".join(map(_service_port, mappings(ports))) or NONE


def _service_port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{text(port.get('protocol'))}"


def _host_and_port(address: str, port: object) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints(subsets: object) -> str:
    shown = []
    for subset in mappings(subsets):
        addresses = [text(address.get("ip")) for address in mappings(subset.get("addresses"))]
        ports = mappings(subset.get("ports"))
        shown += addresses if not ports else []
        shown += [_host_and_port(ip, port.get("port")) for port in ports for ip in addresses]
    return first_items(shown, nothing="" if subsets else NONE)


def _slice_ports(ports: object) -> str:
    found = [
        str(port["port"]) if port.get("port") is not None else text(port.get("name", "*"))
        for port in mappings(ports)
    ]
    return first_items(found, nothing=UNSET)


def _slice_endpoints(endpoints: object) -> str:
    addresses = [a for endpoint in mappings(endpoints) for a in texts(endpoint.get("addresses"))]
    return first_items(addresses, nothing=UNSET)


KINDS: Final = (
    Kind(
        "", "v1", "services", "Service", schema="core/v1.Service", short_names=("svc",),
        categories=("all",), subresources=("status",), create_on_update=True, returns_deleted=True,
        deleted_with=("", "endpoints"),
        fields={
            **NAMESPACED_FIELDS,
            "spec.clusterIP": value_at("spec", "clusterIP"),
            "spec.type": value_at("spec", "type"),
        },
        columns=(
            NAME, Column("Type", ".spec.type"),
            Column("Cluster-IP", ".spec.clusterIPs[0]", or_else(NONE)),
            Column("External-IP", _external_ip), Column("Port(s)", ".spec.ports", _service_ports),
            AGE, wide("Selector", ".spec.selector", labels_text),
        ),
        rules=KindRules(
            check_name=names.dns_label, set_defaults=_set_service_defaults,
            allocation=ALLOCATION, prepare_update=_prepare_service_update,
            validate_create=_validate_service, validate_update=_validate_service_update,
        ),
    ),
    Kind(
        "", "v1", "endpoints", "Endpoints", singular="endpoints", schema="core/v1.Endpoints",
        short_names=("ep",), create_on_update=True, deprecation_warning=(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        ),
        columns=(NAME, Column("Endpoints", ".subsets", _endpoints), AGE),
        rules=KindRules(set_defaults=_set_endpoints_defaults),
    ),
    Kind(
        "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
        schema="discovery/v1.EndpointSlice", generation=Generation.CONTENT_OR_LABELS,
        columns=(
            NAME, Column("AddressType", ".addressType"), Column("Ports", ".ports", _slice_ports),
            Column("Endpoints", ".endpoints", _slice_endpoints), AGE,
        ),
        rules=KindRules(set_defaults=_set_slice_defaults),
    ),
)  # fmt: skip
