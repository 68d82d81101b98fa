"""What can be handed out: one range of addresses and one of ports, each in two parts.

Who does not care gets something from the upper part, where the lower one is left to those who ask
for a certain address or port; only when the upper part is full is it taken from as well.

Source: pkg/registry/core/service/{ipallocator,portallocator} of Kubernetes v1.36.3 (KEP-3070,
KEP-3682), with the ranges of kubeadm and of kube-apiserver's flags.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from fakeapi.types.identity import IdSource

ADDRESSES: Final = ipaddress.IPv4Network("10.96.0.0/12")
PORTS: Final = range(30000, 32768)
_PORTS_RESERVED: Final = 86
_ADDRESSES_RESERVED: Final = 256
_ALLOCATED_ADDRESS: Final = "provided IP is already allocated"
_ALLOCATED_PORT: Final = "provided port is already allocated"
_FULL: Final = "range is full"
#: Of a dry run: upstream takes the trouble to find a port for neither it nor those after.
_DRY_PORT: Final = 32769


class Refused(Exception):
    """What was asked for cannot be had; the message says why."""


class Full(Exception):
    """Nothing is left to hand out."""

    def __init__(self) -> None:
        super().__init__(_FULL)


class Handout:
    """What one write is given; nothing of it lasts unless it is stored.

    `addresses` and `ports` are those that are taken. A dry run is given what looks like it and
    may be taken, as upstream does it.
    """

    def __init__(
        self, addresses: Container[str], ports: Container[int], ids: IdSource, *, is_dry: bool
    ) -> None:
        self._addresses = addresses
        self._ports = ports
        self._ids = ids
        self._is_dry = is_dry
        self._given: set[int] = set()

    def address(self, wanted: str) -> None:
        """Take a certain address. Raises Refused."""
        address = ipaddress.ip_address(wanted)
        ends = (ADDRESSES.network_address, ADDRESSES.broadcast_address)
        if address not in ADDRESSES or address in ends:
            if self._is_dry:
                raise Refused(
                    f"the provided IP ({address}) is not in the valid range. "
                    f"The range of valid IPs is {ADDRESSES}"
                )
            raise Refused("the provided network does not match the current range")
        if not self._is_dry and str(address) in self._addresses:
            raise Refused(_ALLOCATED_ADDRESS)

    def any_address(self) -> str:
        """Some free address. Raises Full."""
        first = int(ADDRESSES.network_address)
        if self._is_dry:
            return str(ADDRESSES.network_address)
        numbers = range(first + 1, int(ADDRESSES.broadcast_address))
        number = self._some(
            numbers,
            _ADDRESSES_RESERVED,
            lambda number: str(ipaddress.IPv4Address(number)) in self._addresses,
        )
        return str(ipaddress.IPv4Address(number))

    def port(self, wanted: int) -> None:
        """Take a certain port. Raises Refused."""
        if not self._is_dry and wanted not in PORTS:
            raise Refused(
                "provided port is not in the valid range. "
                f"The range of valid ports is {PORTS[0]}-{PORTS[-1]}"
            )
        if self._is_taken(wanted):
            raise Refused(_ALLOCATED_PORT)
        self._given.add(wanted)

    def any_port(self) -> int:
        """Some free port. Raises Full."""
        if self._is_dry:
            port = max(self._given) + 1 if self._given else _DRY_PORT
        else:
            port = self._some(PORTS, _PORTS_RESERVED, self._is_taken)
        self._given.add(port)
        return port

    def _is_taken(self, port: int) -> bool:
        return port in self._ports or port in self._given

    def _some(self, numbers: range, reserved: int, is_taken: Callable[[int], bool]) -> int:
        """The first free number from one that chance picks, round about, the upper part first."""
        for part in (numbers[reserved:], numbers[:reserved]):
            start = self._ids.below(len(part))
            for numbers_left in (part[start:], part[:start]):
                for number in numbers_left:
                    if not is_taken(number):
                        return number
        raise Full
