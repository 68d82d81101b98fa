"""Find volumes for unbound claims on each node: existing ones, or storage to provision new ones.

Static binding: a volume pre-bound to the claim is taken first; if the node cannot reach it, the
claim gets none. Else it is the smallest volume that is large enough, of the claim's class, modes
and labels, reachable from the node, and not taken by another claim of the pod. Smaller claims
choose first. Source: `FindMatchingVolume` in component-helpers `storage/volume/pv_helpers.go`,
`findMatchingVolumes` in `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.

Dynamic provisioning: the class must allow the node, and a storage pool near it must have room.
Source: `checkVolumeProvisions`, `hasEnoughCapacity` in the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.field import FieldErrors, quoted
from scheduler.api.quantity import parse_quantity, value
from scheduler.api.selectors import SelectorError, parse_label_selector
from scheduler.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
from scheduler.api.volumes import (
    AVAILABLE,
    NOT_SUPPORTED_PROVISIONER,
    access_modes_met,
    claim_class,
    claim_key,
    is_bound_to_claim,
    requested_storage,
    storage_capacity,
    volume_modes_differ,
)
from scheduler.plugins.volume_binding.reachability import (
    NO_NODES,
    FirstReachable,
    NodeTerms,
    matching_nodes,
    terms_from_affinity,
    terms_from_selector,
    terms_from_topologies,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.selectors import Selector
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes

#: No volume, in arrays of volume indices by node.
NO_VOLUME: Final = -1


class ClaimSelectorError(ValueError):
    """The selector of a claim is malformed; upstream's text."""


class _Candidates:
    """The volumes that a claim could be bound to on some node.

    Volumes are numbered by their position in the list of their class, candidates by rank, smallest
    first.
    """

    def __init__(self, claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> None:
        self.pre_bound: Final[list[int]] = []
        indices: list[int] = []
        requested, selector = requested_storage(claim), _selector_of(claim)
        for index, volume in enumerate(volumes):
            if not _is_suitable(volume, claim, requested):
                continue
            if volume.spec.claim_ref is not None:
                self.pre_bound.append(index)
            elif _is_available(volume, claim, selector):
                indices.append(index)
        by_name = [volume.metadata.name for volume in volumes]
        self.pre_bound.sort(key=lambda i: by_name[i])
        # Of volumes of equal size upstream takes any one; here it is the first by name.
        indices.sort(key=lambda i: (storage_capacity(volumes[i]), by_name[i]))
        self._reachable: Final = FirstReachable(
            [terms_from_affinity(volumes[i].spec.node_affinity) for i in indices]
        )
        self._volume_of_rank: Final = np.array([*indices, NO_VOLUME], dtype=np.int64)
        # -1 for volumes that are no candidates.
        self._rank_of_volume: Final = np.full(len(volumes) + 1, -1, dtype=np.int64)
        self._rank_of_volume[indices] = np.arange(len(indices))
        self._volumes: Final = volumes

    def match(self, nodes: Nodes, taken: Sequence[IntArray]) -> IntArray:
        """Return the index of the claim's volume on each node, without the `taken` ones."""
        ranks = self._reachable.find(nodes, [self._rank_of_volume.take(other) for other in taken])
        matches = self._volume_of_rank.take(ranks)
        for index in reversed(self.pre_bound):
            # The first pre-bound volume takes precedence.
            reach = terms_from_affinity(self._volumes[index].spec.node_affinity)
            match = np.where(matching_nodes(reach, nodes), index, NO_VOLUME)
            free = np.ones(len(nodes), dtype=np.bool_)
            for other in taken:
                free &= other != index
            matches = np.where(free, match, matches)
        return matches


class StaticMatcher:
    """Match claims, smallest first, with volumes, given by class.

    Raises `ClaimSelectorError`.
    """

    def __init__(
        self,
        claims: Iterable[PersistentVolumeClaim],
        volumes: Mapping[str, Sequence[PersistentVolume]],
    ) -> None:
        self.claims: Final = sorted(claims, key=requested_storage)
        self._classes: Final = [claim_class(claim) for claim in self.claims]
        self._volumes: Final = volumes
        self._candidates: Final = [
            _Candidates(claim, volumes[name])
            for claim, name in zip(self.claims, self._classes, strict=True)
        ]

    def match(self, nodes: Nodes) -> list[IntArray]:
        """Return, for each claim, the index of its volume on each node, or `NO_VOLUME`."""
        matches: list[IntArray] = []
        for name, candidates in zip(self._classes, self._candidates, strict=True):
            taken = [m for other, m in zip(self._classes, matches, strict=False) if other == name]
            matches.append(candidates.match(nodes, taken))
        return matches

    def volumes_for(self, index: int) -> Sequence[PersistentVolume]:
        """Return the list of volumes that the indices of a claim's matches refer to."""
        return self._volumes[self._classes[index]]


def _is_suitable(volume: PersistentVolume, claim: PersistentVolumeClaim, requested: int) -> bool:
    """True if the volume, pre-bound to the claim or unclaimed, has the size, mode and class."""
    if volume.spec.claim_ref is not None and not is_bound_to_claim(volume, claim):
        return False
    wanted = claim.spec.volume_attributes_class_name or ""
    return (
        storage_capacity(volume) >= requested
        and not volume_modes_differ(claim, volume)
        and wanted == (volume.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_available(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None
) -> bool:
    """True if an unclaimed volume is available and has the labels and access modes."""
    if volume.status.phase != AVAILABLE:
        # It may become available; binding it now would conflict with the controller's update.
        return False
    if selector is not None and not selector.matches(volume.metadata.labels):
        return False
    return access_modes_met(claim, volume)


def _selector_of(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return parse_label_selector(claim.spec.selector)
    except (FieldErrors, SelectorError) as error:
        raise ClaimSelectorError(
            f"error creating internal label selector for claim: {claim_key(claim)}: {error}"
        ) from error


#: No storage pool, in arrays of pool indices by node.
NO_CAPACITY: Final = -1


class ProvisionError(Exception):
    """The storage class of a claim is missing; upstream's text."""


class ProvisionableNodes(NamedTuple):
    """The nodes on which a claim's volume could be provisioned; arrays by node."""

    #: The storage class allows the node.
    allowed: BoolArray
    #: A storage pool is large enough, or storage is not tracked.
    enough: BoolArray
    #: Index of the node's storage pool, or `NO_CAPACITY`.
    capacities: IntArray


class ProvisionCheck:
    """Check on which nodes a claim's volume could be provisioned. Raises `ProvisionError`."""

    def __init__(self, claim: PersistentVolumeClaim, handle: Handle) -> None:
        self._allowed: Final = _allowed_by(_class_of(claim, handle))
        self._pools: list[CSIStorageCapacity] | None = None
        self._reachable = FirstReachable(())
        if self._allowed and _counts_storage(claim, handle):
            size = value(requested_storage(claim))
            name = claim_class(claim)
            self._pools = [
                pool
                for pool in handle.lister(CSIStorageCapacity).list()
                if pool.storage_class_name == name and _is_large_enough(pool, size)
            ]
            self._reachable = FirstReachable(
                [terms_from_selector(p.node_topology) for p in self._pools]
            )

    def check(self, nodes: Nodes) -> ProvisionableNodes:
        allowed = matching_nodes(self._allowed, nodes)
        if self._pools is None:
            enough = np.ones(len(nodes), dtype=np.bool_)
            return ProvisionableNodes(
                allowed, enough, np.full(len(nodes), NO_CAPACITY, dtype=np.int64)
            )
        ranks = self._reachable.find(nodes)
        enough = ranks < self._reachable.nothing
        return ProvisionableNodes(allowed, enough, np.where(enough, ranks, NO_CAPACITY))

    def capacity(self, index: int) -> CSIStorageCapacity | None:
        """Return the pool with an index of `ProvisionableNodes.capacities`."""
        return None if index == NO_CAPACITY or self._pools is None else self._pools[index]


def volume_limit(pool: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume of a pool, in bytes; None if unknown."""
    limit = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
    return None if limit is None else value(parse_quantity(limit))


def _is_large_enough(pool: CSIStorageCapacity, size: int) -> bool:
    limit = volume_limit(pool)
    return limit is not None and limit >= size


def _class_of(claim: PersistentVolumeClaim, handle: Handle) -> StorageClass:
    name = claim_class(claim)
    if not name:
        raise ProvisionError(f"no class for claim {quoted(claim_key(claim))}")
    storage_class = handle.lister(StorageClass).get(name)
    if storage_class is None:
        raise ProvisionError(f"failed to find storage class {quoted(name)}")
    return storage_class


def _allowed_by(storage_class: StorageClass) -> NodeTerms:
    """Return the terms of the nodes a class allows: none if it has no provisioner."""
    if storage_class.provisioner in ("", NOT_SUPPORTED_PROVISIONER):
        return NO_NODES
    return terms_from_topologies(storage_class.allowed_topologies)


def _counts_storage(claim: PersistentVolumeClaim, handle: Handle) -> bool:
    """True if the claim requests storage and its driver, the provisioner, reports capacity."""
    if "storage" not in claim.spec.resources.requests:
        return False
    storage_class = _class_of(claim, handle)
    driver = handle.lister(CSIDriver).get(storage_class.provisioner)
    return driver is not None and bool(driver.spec.storage_capacity)
