"""Services and the endpoints behind them."""

from __future__ import annotations

from typing import Final

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
    first_of,
    labels_text,
    or_else,
    wide,
)
from fakeapi.types.kind import NAMESPACED_FIELDS, Generation, Kind, KindRules, value_at
from fakeapi.types.objects import Json, child, mapping, mappings, set_defaults, text, texts
from fakeapi.validation import services

_SERVING_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_ADDRESSES_SHOWN: Final = 3


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
    if services.is_external(spec):
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


def _load_balancers(ingress: object) -> str:
    found = {text(entry.get("ip")) or text(entry.get("hostname")) for entry in mappings(ingress)}
    return ",".join(sorted(found - {""}))


def _external_ip(service: Json, _now_seconds: float) -> str:
    kind = find_text(service, ".spec.type")
    own = ",".join(texts(find(service, ".spec.externalIPs")))
    if kind in ("ClusterIP", "NodePort"):
        return own or NONE
    if kind == "LoadBalancer":
        given = _load_balancers(find(service, ".status.loadBalancer.ingress"))
        return ",".join(part for part in (given, own) if part) or "<pending>"
    return find_text(service, ".spec.externalName") if kind == "ExternalName" else UNKNOWN


def _service_ports(ports: object) -> str:
    return ",".join(map(_service_port, mappings(ports))) or NONE


def _service_port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{text(port.get('protocol'))}"


def _host_and_port(address: str, port: object) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints(subsets: object) -> str:
    found = []
    for subset in mappings(subsets):
        addresses = [text(address.get("ip")) for address in mappings(subset.get("addresses"))]
        ports = mappings(subset.get("ports"))
        found += addresses if not ports else []
        found += [_host_and_port(ip, port.get("port")) for port in ports for ip in addresses]
    return first_of(found, _ADDRESSES_SHOWN, nothing="" if subsets else NONE)


def _slice_ports(ports: object) -> str:
    found = [
        str(port["port"]) if port.get("port") is not None else text(port.get("name", "*"))
        for port in mappings(ports)
    ]
    return first_of(found, _ADDRESSES_SHOWN, nothing=UNSET)


def _slice_endpoints(endpoints: object) -> str:
    found = [a for endpoint in mappings(endpoints) for a in texts(endpoint.get("addresses"))]
    return first_of(found, _ADDRESSES_SHOWN, nothing=UNSET)


KINDS: Final = (
    Kind(
        "", "v1", "services", "Service", schema="core/v1.Service", short_names=("svc",),
        categories=("all",), subresources=("status",), create_on_update=True, returns_deleted=True,
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
            prepare_update=_prepare_service_update, validate_create=services.validate_service,
            validate_update=services.validate_service_update,
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
