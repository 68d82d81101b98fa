"""Cluster IPs and node ports of Services: the requested one, or the next free one.

An address is taken as long as a Service in the store has it. There is no other record, so nothing
must be released or repaired after a deletion, a dry run, a restore or a crash.

Source: pkg/registry/core/service of Kubernetes v1.36.3, for one range of IPv4 addresses.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from fakeapi.types.client_text import cached
from fakeapi.types.errors import FieldError, InternalError, Invalid, invalid
from fakeapi.types.kind import Allocation, Held, NumberRange
from fakeapi.types.objects import Json, integer, mapping, mappings, name_of, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable

#: The ranges of kubeadm and of kube-apiserver's flags.
NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
#: The numbers that are given last are those that clients ask for by number (KEP-3070, KEP-3682).
_ADDRESSES: Final = NumberRange(
    range(int(NETWORK.network_address) + 1, int(NETWORK.broadcast_address)), last=256
)
_NODE_PORTS: Final = NumberRange(range(30000, 32768), last=86)
_ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_LOAD_BALANCER_FIELDS: Final = (
    "allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass",
)  # fmt: skip


def has_cluster_ip(spec: Json) -> bool:
    """Return True for every type but ExternalName, headless Services included."""
    return spec.get("type") != "ExternalName"


def is_load_balancer(spec: Json) -> bool:
    """Return True if a load balancer outside the cluster forwards to the Service."""
    return spec.get("type") == "LoadBalancer"


def has_node_ports(spec: Json) -> bool:
    """Return True if clients reach Services of this type through nodes."""
    return spec.get("type") in ("LoadBalancer", "NodePort")


def is_external(spec: Json) -> bool:
    """Return True if clients outside the cluster reach the Service (externalTrafficPolicy)."""
    return has_node_ports(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


#: Fields that go when the type changes from one that has them to one that has not.
_FIELDS_OF_TYPES: Final[tuple[tuple[Callable[[Json], bool], tuple[str, ...]], ...]] = (
    (has_cluster_ip, _ADDRESS_FIELDS),
    (is_external, ("externalTrafficPolicy",)),
    (is_load_balancer, _LOAD_BALANCER_FIELDS),
)


def _allocate(new: Json, old: Json | None, held: Held, *, keeps: bool) -> None:
    """Complete the spec of a Service, new or updated, before validation.

    With `keeps` the address is from another server and stays. Raises Invalid if an address or a
    node port is taken or out of range, InternalError if no address or port is free.
    """
    # A copy: parts of it may belong to the stored object.
    spec = new["spec"] = dict(mapping(new.get("spec")))
    if "ports" in spec:
        spec["ports"] = [dict(port) for port in mappings(spec["ports"])]
    before = mapping((old or {}).get("spec"))
    if before:
        _drop_fields(spec, before)
    if has_node_ports(spec) and has_node_ports(before):
        _keep_node_ports(spec, before)
    if has_cluster_ip(spec):
        _complete_addresses(spec, before)
    else:
        spec.pop("internalTrafficPolicy", None)
    if keeps and spec.get("clusterIP"):
        return
    own, asked = _held(before), _held(spec)
    taken = {number for number in asked if held.holders(number) > (number in own)}
    errors = _errors(spec, before, taken)
    if errors:
        raise Invalid("Service", "", name_of(new), errors)
    _fill_in(spec, asked, held, name_of(new))


#: How Services get addresses and node ports.
ALLOCATION: Final = Allocation(_allocate, lambda service: _held(mapping(service.get("spec"))))


def _held(spec: Json) -> set[int]:
    """Return the address and the node ports of a Service, as numbers."""
    held = {_number_of(text(spec.get("clusterIP")))} if has_cluster_ip(spec) else set[int]()
    if has_node_ports(spec):
        held.update(integer(port.get("nodePort")) for port in mappings(spec.get("ports")))
    return held - {0}


@cached(1 << 16)
def _number_of(address: str) -> int:
    """Return an IPv4 address as a number, 0 if it is none (headless, another family)."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ipaddress.AddressValueError:
        return 0


def _drop_fields(spec: Json, old: Json) -> None:
    """Drop what the new type does not have; validation refuses what the client changed of it."""
    for has, fields in _FIELDS_OF_TYPES:
        for field in fields if has(old) and not has(spec) else ():
            if spec.get(field) == old.get(field):
                spec.pop(field, None)
    if has_node_ports(old) and not has_node_ports(spec):
        for port in mappings(spec.get("ports")):
            if port.get("nodePort") in _held(old):
                del port["nodePort"]


def _keep_node_ports(spec: Json, old: Json) -> None:
    """Keep node ports that the client leaves out; ports are known by name."""
    before = {port.get("name"): port.get("nodePort") for port in mappings(old.get("ports"))}
    wanted = {port.get("nodePort") for port in mappings(spec.get("ports"))}
    for port in mappings(spec.get("ports")):
        number = before.get(port.get("name"))
        if number and number not in wanted and not port.get("nodePort"):
            port["nodePort"] = number


def _complete_addresses(spec: Json, old: Json) -> None:
    """Keep what the client leaves out, fill in the rest, and let clusterIPs follow clusterIP."""
    before = old if has_cluster_ip(old) else {}
    address, plural = spec.get("clusterIP") or before.get("clusterIP"), spec.get("clusterIPs")
    if address:
        spec["clusterIP"] = address
        if address == before.get("clusterIP"):
            spec["clusterIPs"] = plural or before.get("clusterIPs")
        elif not plural or plural == before.get("clusterIPs"):
            spec["clusterIPs"] = [address]
    spec["ipFamilies"] = spec.get("ipFamilies") or before.get("ipFamilies") or ["IPv4"]
    policy = spec.get("ipFamilyPolicy") or before.get("ipFamilyPolicy")
    spec["ipFamilyPolicy"] = policy or "SingleStack"


def _errors(spec: Json, old: Json, taken: set[int]) -> list[FieldError]:
    """Return the errors of requested addresses and ports; the stored ones are valid."""
    errors: list[FieldError] = []
    if has_cluster_ip(spec):
        errors += _family_errors(spec, old)
        if not (errors or (old and has_cluster_ip(old))):
            errors += _address_errors(spec, taken)
    ports = mappings(spec.get("ports")) if has_node_ports(spec) and not errors else []
    for index, port in enumerate(ports):
        number = integer(port.get("nodePort"))
        why = "provided port is already allocated" if number in taken else ""
        if number and number not in _NODE_PORTS.numbers and number not in _held(old):
            span = f"{_NODE_PORTS.numbers[0]}-{_NODE_PORTS.numbers[-1]}"
            why = f"provided port is not in the valid range. The range of valid ports is {span}"
        if why:
            return [invalid(f"spec.ports[{index}].nodePort", number, why)]
    return errors


def _family_errors(spec: Json, old: Json) -> list[FieldError]:
    """Return the errors of a Service that asks for IPv6."""
    errors, policy = list[FieldError](), spec["ipFamilyPolicy"]
    if policy not in ("PreferDualStack", "SingleStack", old.get("ipFamilyPolicy")):
        why = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, why))
    families = texts(spec["ipFamilies"]) if spec["ipFamilies"] != old.get("ipFamilies") else []
    return errors + [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family != "IPv4"
    ]


def _address_errors(spec: Json, taken: set[int]) -> list[FieldError]:
    address, plural = spec.get("clusterIP"), spec.get("clusterIPs")
    number, why = _number_of(text(address)), ""
    if plural and plural != [address]:
        why = "first value must match `clusterIP`"
        why = why if address else "must be empty when `clusterIP` is not specified"
    elif address and address != "None" and not number:
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [invalid("spec.clusterIPs[0]", address, why)]
    elif number and number not in _ADDRESSES.numbers:
        why = "the provided network does not match the current range"
        why = f"failed to allocate IP {address}: {why}"
    elif number in taken:
        why = f"failed to allocate IP {address}: provided IP is already allocated"
    return [invalid("spec.clusterIPs", plural, why)] if why else []


def _fill_in(spec: Json, given: set[int], held: Held, name: str) -> None:
    """Allocate missing numbers; ports of one number, as of TCP and UDP, share a node port."""
    if has_cluster_ip(spec) and not spec.get("clusterIP"):
        purpose = f'a serviceIP for Service "{name}"'
        number = _next(_ADDRESSES, given, held, purpose)
        spec["clusterIP"] = str(ipaddress.IPv4Address(number))
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not has_node_ports(spec) or spec.get("allocateLoadBalancerNodePorts") is False:
        return
    ports = mappings(spec.get("ports"))
    shared = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")}
    for port in ports:
        if not port.get("nodePort"):
            if port.get("port") not in shared:
                number = _next(_NODE_PORTS, given, held, "a nodePort")
                shared[port.get("port")] = number
                given.add(number)
            port["nodePort"] = shared[port.get("port")]


def _next(wanted: NumberRange, given: set[int], held: Held, purpose: str) -> int:
    number = held.lowest_free(wanted, given)
    if number is None:
        raise InternalError(f"failed to allocate {purpose}: range is full")
    return number
