"""The books about Services: which addresses and ports those in the store hold.

They are read up from the log of changes when somebody is about to hand out something, so that no
other write is slowed down, and counted anew when the log does not lead from there to here: after
the store was restored, wound back or compacted, or for another store altogether.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fakeapi.types.objects import integer, mapping, text
from fakeapi.types.service_fields import (
    NONE,
    cluster_ips,
    needs_cluster_ip,
    needs_health_check,
    node_ports,
    opens_node_ports,
)

if TYPE_CHECKING:
    from fakeapi.store.store import Collection, Revision
    from fakeapi.types.objects import Json

_Key = TypeVar("_Key", str, int)


class ServiceBooks:
    """What the Services of one store hold; `addresses` and `ports` are true after `read_up`."""

    def __init__(self) -> None:
        #: How many Services hold it; more than one only if the state came from elsewhere.
        self.addresses: dict[str, int] = {}
        self.ports: dict[int, int] = {}
        self._revisions: dict[str, Revision] | None = None
        self._position = 0

    def read_up(self, collection: Collection) -> None:
        """Take in what has changed since the last time."""
        log = collection.log
        if collection.revisions is not self._revisions or self._position < log.first:
            self._count_anew(collection)
        for position in range(self._position, log.end):
            change = log.at(position)
            self._count(change.previous, -1)
            self._count(change.current, 1)
        self._position = log.end

    def _count_anew(self, collection: Collection) -> None:
        self.addresses.clear()
        self.ports.clear()
        for revision in collection.revisions.values():
            self._count(revision, 1)
        self._revisions = collection.revisions
        self._position = collection.log.end

    def _count(self, revision: Revision | None, times: int) -> None:
        if revision is None:
            return
        spec = mapping(revision.object.get("spec"))
        for address in held_addresses(spec):
            _add(self.addresses, address, times)
        for port in held_ports(spec):
            _add(self.ports, port, times)


def _add(counts: dict[_Key, int], key: _Key, times: int) -> None:
    count = counts.get(key, 0) + times
    if count:
        counts[key] = count
    else:
        del counts[key]


def held_addresses(spec: Json) -> list[str]:
    """The addresses that a Service occupies; one that is headless has none."""
    if not needs_cluster_ip(spec):
        return []
    given = cluster_ips(spec) or [text(spec.get("clusterIP"))]
    return [address for address in given if address and address != NONE]


def held_ports(spec: Json) -> set[int]:
    """The ports on nodes that a Service occupies; a mere name may list some and has none."""
    held = set(node_ports(spec)) if opens_node_ports(spec) else set[int]()
    health_check = integer(spec.get("healthCheckNodePort"))
    if needs_health_check(spec) and health_check:
        held.add(health_check)
    return held
