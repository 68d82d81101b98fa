"""Near which nodes a volume could be made for a claim: the class's topologies, the storage left.

Source: `checkVolumeProvisions`, `hasEnoughCapacity` in
`pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.api.field import quoted
from scheduler.api.quantity import parse_quantity, value
from scheduler.api.volumes import (
    NOT_SUPPORTED_PROVISIONER,
    claim_class,
    claim_key,
    requested_storage,
)
from scheduler.plugins.volume_binding.node_ranking import (
    NOWHERE,
    Alternatives,
    NodeRanking,
    nodes_meeting,
)
from scheduler.plugins.volume_binding.volume_reach import reach_of_selector, reach_of_topologies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.storage import (
        CSIDriver,
        CSIStorageCapacity,
        PersistentVolumeClaim,
        StorageClass,
    )
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes

#: Stands for "none" where an array says which storage pool serves a node.
NO_CAPACITY: Final = -1


class ProvisionError(Exception):
    """A claim for which it cannot even be said who would make its volume; upstream's text."""


class Room(NamedTuple):
    """Where a claim's volume could be made: which nodes its class allows, and has room for.

    `capacities` says which pool serves each node, `NO_CAPACITY` where none does or none is needed.
    """

    allowed: BoolArray
    enough: BoolArray
    capacities: IntArray


class Provision:
    """A claim whose volume is to be made, with its class and the pools that have room for it.

    Raises `ProvisionError`.
    """

    def __init__(self, claim: PersistentVolumeClaim, handle: Handle) -> None:
        self._allowed: Final = _allowed_by(_class_of(claim, handle))
        self._pools: list[CSIStorageCapacity] | None = None
        self._ranking = NodeRanking(())
        if self._allowed and _counts_storage(claim, handle):
            size = value(requested_storage(claim))
            name = claim_class(claim)
            self._pools = [
                pool
                for pool in cast(
                    "Iterable[CSIStorageCapacity]", handle.lister("csistoragecapacities").list()
                )
                if pool.storage_class_name == name and _has_room(pool, size)
            ]
            self._ranking = NodeRanking([reach_of_selector(p.node_topology) for p in self._pools])

    def room(self, nodes: Nodes) -> Room:
        """Where the volume could be made."""
        allowed = nodes_meeting(self._allowed, nodes)
        if self._pools is None:
            enough = np.ones(len(nodes), dtype=np.bool_)
            return Room(allowed, enough, np.full(len(nodes), NO_CAPACITY, dtype=np.int64))
        ranks = self._ranking.best(nodes)
        enough = ranks < self._ranking.nothing
        return Room(allowed, enough, np.where(enough, ranks, NO_CAPACITY))

    def capacity(self, index: int) -> CSIStorageCapacity | None:
        """The pool that a number in `Room.capacities` means."""
        return None if index == NO_CAPACITY or self._pools is None else self._pools[index]


def volume_limit(pool: CSIStorageCapacity) -> int | None:
    """How large a volume a pool can make at most, in bytes; None if it does not say."""
    limit = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
    return None if limit is None else value(parse_quantity(limit))


def _has_room(pool: CSIStorageCapacity, size: int) -> bool:
    limit = volume_limit(pool)
    return limit is not None and limit >= size


def _class_of(claim: PersistentVolumeClaim, handle: Handle) -> StorageClass:
    name = claim_class(claim)
    if not name:
        raise ProvisionError(f"no class for claim {quoted(claim_key(claim))}")
    found = handle.lister("storageclasses").get(name)
    if found is None:
        raise ProvisionError(f"failed to find storage class {quoted(name)}")
    return cast("StorageClass", found)


def _allowed_by(storage_class: StorageClass) -> Alternatives:
    """The nodes that a class makes volumes for: none if nobody makes its volumes."""
    if storage_class.provisioner in ("", NOT_SUPPORTED_PROVISIONER):
        return NOWHERE
    return reach_of_topologies(storage_class.allowed_topologies)


def _counts_storage(claim: PersistentVolumeClaim, handle: Handle) -> bool:
    """Whether the claim's driver tells how much storage is left, and the claim how much it wants.

    Classes name their driver as provisioner.
    """
    if "storage" not in claim.spec.resources.requests:
        return False
    storage_class = _class_of(claim, handle)
    driver = cast("CSIDriver | None", handle.lister("csidrivers").get(storage_class.provisioner))
    return driver is not None and bool(driver.spec.storage_capacity)
