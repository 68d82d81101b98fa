"""What the writer of a Service is told though it is stored.

Source: pkg/api/service/warnings.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from fakeapi.types import gotext
from fakeapi.types.objects import mapping, metadata_of, text, texts
from fakeapi.types.service_fields import EXTERNAL_NAME, NONE, cluster_ips, type_of
from fakeapi.validation.addresses import parsed, parsed_sloppily

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"


def warnings_of(service: Json) -> list[str]:
    """The warnings, in upstream's order."""
    spec = mapping(service.get("spec"))
    external, is_name = texts(spec.get("externalIPs")), type_of(spec) == EXTERNAL_NAME
    is_headless = type_of(spec) == "ClusterIP" and spec.get("clusterIP") == NONE
    warnings = []
    if _HINTS in mapping(metadata_of(service).get("annotations")):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if spec.get("clusterIP") not in (None, "", NONE):
        warnings += _of_addresses("spec.clusterIPs", cluster_ips(spec))
    if is_headless:
        warnings += _of_headless(spec)
    warnings += _of_addresses("spec.externalIPs", external)
    if external and not is_headless and not is_name:
        warnings.append(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        )
    if spec.get("loadBalancerIP"):
        warnings += _of_address("spec.loadBalancerIP", text(spec["loadBalancerIP"]))
    for index, value in enumerate(texts(spec.get("loadBalancerSourceRanges"))):
        warnings += _of_range(f"spec.loadBalancerSourceRanges[{index}]", value)
    if is_name and external:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not is_name and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append(
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
        )
    return warnings


def warnings_of_status(service: Json) -> list[str]:
    """Those about the addresses of its load balancer."""
    balancer = mapping(mapping(service.get("status")).get("loadBalancer"))
    entries = balancer.get("ingress")
    addresses = [text(mapping(e).get("ip")) for e in entries] if isinstance(entries, list) else []
    return _of_addresses("status.loadBalancer.ingress", addresses)


def _of_headless(spec: Json) -> list[str]:
    ignored = [field for field in ("loadBalancerIP", "externalIPs") if spec.get(field)]
    if spec.get("sessionAffinity") != "None":
        ignored.append("SessionAffinity")
    return [f"spec.{field} is ignored for headless services" for field in ignored]


def _of_addresses(field: str, values: list[str]) -> list[str]:
    found = [_of_address(f"{field}[{i}]", value) for i, value in enumerate(values) if value]
    return [warning for warnings in found for warning in warnings]


def _of_address(field: str, value: str) -> list[str]:
    lenient, address = parsed_sloppily(value), parsed(value)
    if lenient is None:
        return []
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        lenient, address = address.ipv4_mapped, None
    shown = gotext.quoted(value)
    if address is None:
        use = gotext.quoted(str(lenient))
        return [f"{field}: non-standard IP address {shown} is invalid: use {use}"]
    if address.version == 6 and str(address) != value:
        use = gotext.quoted(str(address))
        form = f"should be in RFC 5952 canonical format ({use})"
        return [f"{field}: IPv6 address {shown} {form}"]
    return []


def _of_range(field: str, value: str) -> list[str]:
    """A range of IPv6 that is written in an unusual way; others are refused if they are new."""
    head, _, length = value.strip().partition("/")
    address = parsed(head)
    if address is None or address.version != 6 or not length.isdecimal():
        return []
    use = f"{address}/{int(length)}"
    if use == value:
        return []
    form = f"should be in RFC 5952 canonical format ({gotext.quoted(use)})"
    return [f"{field}: IPv6 CIDR value {gotext.quoted(value)} {form}"]
