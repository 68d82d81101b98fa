"""IP addresses and networks as Go reads them: no zones, no masks in place of a length."""

from __future__ import annotations

import ipaddress

_LENGTH_DIGITS_MAX = 3


def version_of(address: str) -> int:
    """Return 4 or 6 for an address, 0 for any other text."""
    try:
        return 0 if "%" in address else ipaddress.ip_address(address).version
    except ValueError:
        return 0


def is_network(value: str) -> bool:
    """Return True if the text is an address, a slash, and the length of a prefix."""
    address, _, length = value.partition("/")
    version = version_of(address)
    is_number = length.isascii() and length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX
    return version > 0 and is_number and int(length) <= (32 if version == 4 else 128)


def is_mapped(value: str) -> bool:
    """Return True for an IPv4 address, or network, that is written as IPv6."""
    address = ipaddress.ip_address(value.partition("/")[0])
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
