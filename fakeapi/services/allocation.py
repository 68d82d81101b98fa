"""Hands out addresses and ports to a Service that is written, before it is validated.

Choosing is all there is to it: no write waits for another, so what is chosen is taken as soon as
the Service is stored, and was never taken if it is refused or is but a dry run.

Source: pkg/registry/core/service/storage/{storage,alloc}.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.services.books import ServiceBooks, held_ports
from fakeapi.services.families import settle_families
from fakeapi.services.fields import keep_allocated, normalize
from fakeapi.services.ranges import Full, Handout, Refused
from fakeapi.types.errors import FieldError, InternalError, Invalid, UnreasonedFailure, invalid
from fakeapi.types.objects import Json, finalizers_of, integer, mapping, mappings, name_of, text
from fakeapi.types.service_fields import (
    EXTERNAL_NAME,
    NONE,
    SERVICES,
    cluster_ips,
    needs_cluster_ip,
    needs_health_check,
    opens_node_ports,
    ports_of,
    type_of,
    wants_node_ports,
)

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry, Target
    from fakeapi.store.store import Store

_ENDPOINTS: Final = ("", "endpoints")
_HEALTH_CHECK: Final = "healthCheckNodePort"


def on_create(registry: Registry, target: Target, service: Json) -> None:
    """Give a new Service what it needs. Raises ApiError if it asks for what it cannot have."""
    spec = _own_spec(service)
    normalize(spec, None)
    if registry.keeps_service_addresses and spec.get("clusterIP"):
        return
    name = name_of(service)
    _raise_if_any(name, settle_families(spec, None))
    handout = _handout(registry, target)
    _give_address(spec, name, handout)
    if opens_node_ports(spec):
        _give_ports(spec, name, handout)
    if needs_health_check(spec):
        _give_health_check_port(spec, handout)
    _hide_internal_policy(spec)


def on_update(registry: Registry, target: Target, service: Json, old_service: Json) -> None:
    """Let a Service keep what it has, and give it what it needs now. Raises ApiError."""
    spec, old = _own_spec(service), dict(mapping(old_service.get("spec")))
    normalize(old, None)
    keep_allocated(spec, old)
    normalize(spec, old)
    name = name_of(service)
    _raise_if_any(name, settle_families(spec, old))
    handout = _handout(registry, target)
    if not needs_cluster_ip(old) and needs_cluster_ip(spec):
        _give_address(spec, name, handout)
    if opens_node_ports(spec):
        _give_changed_ports(spec, old, name, handout)
    if needs_health_check(spec) and not needs_health_check(old):
        _give_health_check_port(spec, handout)
    _hide_internal_policy(spec)


def remove_endpoints(store: Store, key: str) -> None:
    """The Endpoints of a deleted Service go at once, not when a controller gets round to it."""
    found = store.collection(_ENDPOINTS).revisions.get(key)
    if found is not None and not finalizers_of(found.object):
        store.remove(_ENDPOINTS, key)


def _own_spec(service: Json) -> Json:
    """The spec with its ports, made anew: parts of it may belong to what is stored."""
    spec = service["spec"] = dict(mapping(service.get("spec")))
    if "ports" in spec:
        spec["ports"] = [dict(port) for port in mappings(spec["ports"])]
    return spec


def _handout(registry: Registry, target: Target) -> Handout:
    books = registry.extension(ServiceBooks)
    books.read_up(registry.store.collection(SERVICES))
    dry = target.options.dry_run
    return Handout(books.addresses, books.ports, registry.ids, is_dry=bool(dry))


def _raise_if_any(name: str, errors: list[FieldError]) -> None:
    if errors:
        raise Invalid("Service", "", name, errors)


def _give_address(spec: Json, name: str, handout: Handout) -> None:
    if not needs_cluster_ip(spec) or cluster_ips(spec)[:1] == [NONE]:
        return
    given = cluster_ips(spec)
    try:
        if given:
            handout.address(given[0])
        else:
            address = handout.any_address()
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
    except Refused as error:
        why = f"failed to allocate IP {given[0]}: {error}"
        _raise_if_any(name, [invalid("spec.clusterIPs", given, why)])
    except Full as error:
        why = f'failed to allocate a serviceIP for Service "{name}": {error}'
        raise InternalError(why) from error


def _give_ports(spec: Json, name: str, handout: Handout) -> None:
    """Ports of the same number, say of TCP and UDP, share the port on nodes."""
    ports, by_number = ports_of(spec), dict[int, int]()
    for index, port in enumerate(ports):
        wanted, number = integer(port.get("nodePort")), integer(port.get("port"))
        if not wanted and not wants_node_ports(spec):
            continue
        shared = by_number.get(number, 0)
        if not shared:
            requested = _requested(ports, number)
            if requested:
                _take_port(handout, requested, name, index)
            port["nodePort"] = by_number[number] = requested or _any_port(handout)
        elif not wanted:
            port["nodePort"] = shared
        elif wanted != shared:
            _take_port(handout, wanted, name, index)


def _requested(ports: list[Json], number: int) -> int:
    """The port on nodes that is asked for by the first of those with that number."""
    wanted = (integer(port.get("nodePort")) for port in ports if port.get("port") == number)
    return next((node_port for node_port in wanted if node_port), 0)


def _give_changed_ports(spec: Json, old: Json, name: str, handout: Handout) -> None:
    """What it has had it need not ask for."""
    held, taken = held_ports(old), set[int]()
    pairs: set[tuple[object, int]] = set()
    for index, port in enumerate(ports_of(spec)):
        wanted = integer(port.get("nodePort"))
        if not wanted and not wants_node_ports(spec):
            continue
        if not wanted:
            port["nodePort"] = wanted = _any_port(handout)
        elif wanted not in held | taken:
            _take_port(handout, wanted, name, index)
            taken.add(wanted)
        pair = (port.get("protocol"), wanted)
        if pair in pairs:
            raise UnreasonedFailure(f"duplicate nodePort: {{{text(pair[0])} {wanted}}}")
        pairs.add(pair)


def _take_port(handout: Handout, wanted: int, name: str, index: int) -> None:
    try:
        handout.port(wanted)
    except Refused as error:
        _raise_if_any(name, [invalid(f"spec.ports[{index}].nodePort", wanted, str(error))])


def _any_port(handout: Handout) -> int:
    try:
        return handout.any_port()
    except Full as error:
        raise InternalError(f"failed to allocate a nodePort: {error}") from error


def _give_health_check_port(spec: Json, handout: Handout) -> None:
    wanted = integer(spec.get(_HEALTH_CHECK))
    try:
        if wanted:
            handout.port(wanted)
        else:
            spec[_HEALTH_CHECK] = handout.any_port()
    except Refused as error:
        why = f"failed to allocate requested HealthCheck NodePort {wanted}: {error}"
        raise InternalError(why) from error
    except Full as error:
        raise InternalError(f"failed to allocate a HealthCheck NodePort 0: {error}") from error


def _hide_internal_policy(spec: Json) -> None:
    """Upstream stores what was given for a mere name, and shows it to nobody."""
    if type_of(spec) == EXTERNAL_NAME and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        del spec["internalTrafficPolicy"]
