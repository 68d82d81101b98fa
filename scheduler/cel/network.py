"""IP addresses and CIDRs of CEL.

An error about an IPv6 address lacks the reason that Go's text has.
Source: `k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go`, v0.36.3; Go's `net/netip`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.api.field import quoted
from scheduler.cel.errors import CelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
_LOCAL_V4: Final = ipaddress.IPv4Network("224.0.0.0/24")


@dataclass(frozen=True, slots=True)
class IP:
    """`net.IP`."""

    address: Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """`net.CIDR`: an address and the length of its prefix."""

    interface: Interface

    def __str__(self) -> str:
        return str(self.interface)


def _parsed(text: str) -> Address:
    """Parse an address as Go's `ParseAddr`; raises `ValueError` with its text."""
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        reason = "unable to parse IP"
        if "." in text.partition(":")[0]:
            reason = _wrong_v4(text)
        raise ValueError(f"ParseAddr({quoted(text)}): {reason}") from error


def _wrong_v4(text: str) -> str:
    """Return why a text is no IPv4 address."""
    fields = 0
    digits = ""
    for position, character in enumerate(text):
        if character in "0123456789":
            if digits == "0":
                return "IPv4 field has octet with leading zero"
            digits += character
            if int(digits) > 255:
                return "IPv4 field has value >255"
        elif character == ".":
            if not digits or position == len(text) - 1:
                return f"IPv4 field must have at least one digit (at {quoted(text[position:])})"
            if fields == 3:
                return "IPv4 address too long"
            fields, digits = fields + 1, ""
        else:
            return f"unexpected character (at {quoted(text[position:])})"
    return "IPv4 address too short"


def _ip(text: str) -> IP:
    try:
        address = _parsed(text)
    except ValueError as error:
        where = f"IP Address {quoted(text)} parse error during conversion from string"
        raise CelError(f"{where}: {error}") from error
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise CelError(f"IP address {quoted(text)} with zone value is not allowed")
        _refuse_mapped(text, address)
    return IP(address)


def _refuse_mapped(text: str, address: Address) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")


def _cidr(text: str) -> CIDR:
    where = "network address parse error during conversion from string"
    try:
        interface = _interface(text)
        _refuse_mapped(text, interface.ip)
    except ValueError as error:
        raise CelError(f"{where}: {where}: netip.ParsePrefix({quoted(text)}): {error}") from error
    except CelError as error:
        raise CelError(f"{where}: {error}") from error
    return CIDR(interface)


def _interface(text: str) -> Interface:
    """Parse a prefix as Go's `ParsePrefix`; raises `ValueError` with its text."""
    address_text, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError("no '/'")
    address = _parsed(address_text)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError("IPv6 zones cannot be present in a prefix")
    if not re.fullmatch("0|[1-9][0-9]*", bits):
        raise ValueError(f"bad bits after slash: {quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise ValueError("prefix length out of range")
    return ipaddress.ip_interface((address, int(bits)))


def is_valid(parse: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that is true for the texts that `parse` accepts."""

    def is_valid(*arguments: object) -> bool:
        try:
            parse(*arguments)
        except CelError:
            return False
        return True

    return is_valid


def _contains_ip(cidr: CIDR, other: IP | str) -> bool:
    if isinstance(other, str):
        try:
            other = _ip(other)
        except CelError as error:
            raise CelError("no such overload") from error
    return other.address in cidr.interface.network


def _contains_cidr(cidr: CIDR, other: CIDR | str) -> bool:
    if isinstance(other, str):
        other = _cidr(other)
    outer, inner = cidr.interface.network, other.interface.network
    return inner.network_address in outer and outer.prefixlen <= inner.prefixlen


def _is_link_local_multicast(ip: IP) -> bool:
    if isinstance(ip.address, ipaddress.IPv4Address):
        return ip.address in _LOCAL_V4
    first = int.from_bytes(ip.address.packed[:2], "big")
    return first & 0xFF0F == 0xFF02


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    return not (
        address.is_unspecified
        or address == _BROADCAST
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "ip": lambda value: IP(value.interface.ip) if isinstance(value, CIDR) else _ip(value),
    "isIP": is_valid(_ip),
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
    "family": lambda ip: ip.address.version,
    "isUnspecified": lambda ip: ip.address.is_unspecified,
    "isLoopback": lambda ip: ip.address.is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda ip: ip.address.is_link_local,
    "isGlobalUnicast": _is_global_unicast,
    "cidr": _cidr,
    "isCIDR": is_valid(_cidr),
    "masked": lambda cidr: CIDR(ipaddress.ip_interface(str(cidr.interface.network))),
    "prefixLength": lambda cidr: cidr.interface.network.prefixlen,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
}
