"""Addresses and ranges in fields that are older than strict rules for them.

What an object has already it may keep, whatever the rules have become.
Source: apimachinery pkg/util/validation/ip.go of v0.36.3, with StrictIPCIDRValidation.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeapi.types.errors import FieldError, invalid

if TYPE_CHECKING:
    from collections.abc import Collection

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS: Final = re.compile(r"(^|[.:/])0+(?=[0-9])")
_PREFIX_LENGTH: Final = re.compile(r"[0-9]{1,3}")


def parsed(value: str) -> Address | None:
    """The address, None if it is none; zones are no part of one."""
    if "%" in value:
        return None
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def parsed_sloppily(value: str) -> Address | None:
    """The address as older releases read it, who overlooked leading zeros."""
    head, separator, tail = value.rpartition(":")
    return parsed(head + separator + _LEADING_ZEROS.sub(r"\1", tail) if "." in tail else value)


def address_errors(field: str, value: str, old_values: Collection[str] = ()) -> list[FieldError]:
    """What is wrong with an address."""
    if value in old_values:
        return []
    address = parsed(value)
    if address is None:
        is_sloppy = parsed_sloppily(value) is not None
        return [invalid(field, value, "must not have leading 0s" if is_sloppy else _NO_ADDRESS)]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(field, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def range_errors(field: str, value: str, old_values: Collection[str] = ()) -> list[FieldError]:
    """What is wrong with a range of addresses."""
    if value in old_values:
        return []
    head, _, length = value.partition("/")
    address = parsed_sloppily(head)
    if address is None or not _PREFIX_LENGTH.fullmatch(length):
        return [invalid(field, value, _NO_RANGE)]
    if int(length) > address.max_prefixlen:
        return [invalid(field, value, _NO_RANGE)]
    if parsed(head) is None or str(int(length)) != length:
        return [invalid(field, value, "must not have leading 0s in IP or prefix length")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(field, value, "must not have an IPv4-mapped IPv6 address")]
    network = ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    if network.network_address != address:
        return [invalid(field, value, "must not have bits set beyond the prefix length")]
    return []


def endpoint_errors(field: str, value: str) -> list[FieldError]:
    """Why traffic cannot be meant for an address, which is valid."""
    address = parsed_sloppily(value)
    if address is None:
        return [invalid(field, value, "must be a valid IP address")]
    if address.is_unspecified:
        return [invalid(field, value, f"may not be unspecified ({value})")]
    if address.is_loopback:
        return [invalid(field, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if address.is_link_local:
        why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        return [invalid(field, value, why)]
    if address in _LINK_LOCAL_MULTICAST[address.version]:
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        return [invalid(field, value, why)]
    return []


_LINK_LOCAL_MULTICAST: Final = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}
