"""Fields of a Service that hang together: what it keeps when it is written, and what goes.

Source: pkg/registry/core/service/strategy.go (dropTypeDependentFields) and
pkg/registry/core/service/storage/storage.go (normalizeClusterIPs, patchAllocatedValues) of v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.objects import Json, child, integer, mapping, text
from fakeapi.types.service_fields import (
    LOAD_BALANCER,
    cluster_ips,
    is_reached_from_outside,
    needs_cluster_ip,
    needs_health_check,
    node_ports,
    opens_node_ports,
    ports_of,
    type_of,
    wants_node_ports,
)

_FAMILY_FIELDS: Final = ("ipFamilies", "ipFamilyPolicy")


def normalize(spec: Json, old: Json | None) -> None:
    """Bring clusterIPs in line with a clusterIP that was written by who knows only the one."""
    given, plural = text(spec.get("clusterIP")), cluster_ips(spec)
    if old is None:
        if given and not plural:
            spec["clusterIPs"] = [given]
        return
    before, old_plural = text(old.get("clusterIP")), cluster_ips(old)
    if given == before:
        if old_plural and not plural:
            spec["clusterIPs"] = old_plural
    elif plural == old_plural:
        _put(spec, "clusterIPs", [given] if given else [])


def keep_allocated(spec: Json, old: Json) -> None:
    """Who leaves out what was handed out means to keep it."""
    if needs_cluster_ip(old) and needs_cluster_ip(spec):
        if not spec.get("clusterIP"):
            _put(spec, "clusterIP", old.get("clusterIP"))
        if not cluster_ips(spec):
            _put(spec, "clusterIPs", cluster_ips(old))
    if wants_node_ports(old) and wants_node_ports(spec):
        used = set(node_ports(old)) & set(node_ports(spec))
        by_name = {text(port.get("name")): integer(port.get("nodePort")) for port in ports_of(old)}
        for port in ports_of(spec):
            before = by_name.get(text(port.get("name")), 0)
            if not port.get("nodePort") and before not in used:
                _put(port, "nodePort", before)
    if needs_health_check(old) and needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        _put(spec, "healthCheckNodePort", old.get("healthCheckNodePort"))


def drop_fields_of_type(service: Json, old_service: Json) -> None:
    """A new type takes away what only the old one had, unless it was changed as well.

    What was changed stays, for validation to refuse.
    """
    spec, old = child(service, "spec"), mapping(old_service.get("spec"))
    if needs_cluster_ip(old) and not needs_cluster_ip(spec):
        if _is_same(spec, old, "clusterIP", "clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for field in _FAMILY_FIELDS:
            _drop_if_same(spec, old, field)
    if opens_node_ports(old) and not opens_node_ports(spec):
        _drop_old_node_ports(spec, old)
    if needs_health_check(old) and not needs_health_check(spec):
        _drop_if_same(spec, old, "healthCheckNodePort")
    if type_of(old) == LOAD_BALANCER != type_of(spec):
        _drop_if_same(spec, old, "allocateLoadBalancerNodePorts")
        _drop_if_same(spec, old, "loadBalancerClass")
    if is_reached_from_outside(old) and not is_reached_from_outside(spec):
        _drop_if_same(spec, old, "externalTrafficPolicy")
    if type_of(spec) != LOAD_BALANCER and "loadBalancer" in mapping(service.get("status")):
        service["status"] = {**mapping(service.get("status")), "loadBalancer": {}}


def _drop_old_node_ports(spec: Json, old: Json) -> None:
    if set(node_ports(old)) >= set(node_ports(spec)):
        for port in ports_of(spec):
            port.pop("nodePort", None)


def _drop_if_same(spec: Json, old: Json, field: str) -> None:
    if _is_same(spec, old, field):
        spec.pop(field, None)


def _is_same(spec: Json, old: Json, *fields: str) -> bool:
    return all(spec.get(field) == old.get(field) for field in fields)


def _put(obj: Json, field: str, value: object) -> None:
    """Set a field; what is empty is left out."""
    if value in (None, "", 0) or value == []:
        obj.pop(field, None)
    else:
        obj[field] = value
