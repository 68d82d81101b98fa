"""What each node has for unbound claims: existing volumes, or the storage to provision new ones.

Static binding: a volume pre-bound to the claim is taken first; if the node cannot reach it, the
claim gets none. Else it is the smallest volume that is large enough, of the claim's class, modes
and labels, reachable from the node, and not taken by another claim of the pod. Smaller claims
choose first. Source: `FindMatchingVolume` in component-helpers `storage/volume/pv_helpers.go`,
`findMatchingVolumes` in `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.

Dynamic provisioning: the class must allow the node, and a storage pool near it must have room.
Source: `checkVolumeProvisions`, `hasEnoughCapacity` in the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.api.field import FieldErrors, quoted
from scheduler.api.quantity import parse_quantity, value
from scheduler.api.selectors import SelectorError, parse_label_selector
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
from scheduler.plugins.volume_binding.node_ranking import (
    NOWHERE,
    Alternatives,
    NodeRanking,
    nodes_meeting,
    reach_of_affinity,
    reach_of_selector,
    reach_of_topologies,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.selectors import Selector
    from scheduler.api.storage import (
        CSIDriver,
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
    )
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes

#: Stands for "none" where an array says which volume a node has for a claim.
NO_VOLUME: Final = -1


class ClaimSelectorError(ValueError):
    """A claim whose selector cannot be read, with upstream's text."""


class _Candidates:
    """The volumes that a claim could be bound to, as far as the node does not matter.

    Volumes are numbered as in the list of their class; candidates by rank, the smallest first.
    """

    def __init__(self, claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> None:
        self.kept: Final[list[int]] = []
        found: list[int] = []
        requested, selector = requested_storage(claim), _selector_of(claim)
        for index, volume in enumerate(volumes):
            if not _is_open_to(volume, claim, requested):
                continue
            if volume.spec.claim_ref is not None:
                self.kept.append(index)
            elif _is_on_offer(volume, claim, selector):
                found.append(index)
        by_name = [volume.metadata.name for volume in volumes]
        self.kept.sort(key=lambda i: by_name[i])
        # Of equal ones upstream takes any, we the first by name.
        found.sort(key=lambda i: (storage_capacity(volumes[i]), by_name[i]))
        self._ranking: Final = NodeRanking(
            [reach_of_affinity(volumes[i].spec.node_affinity) for i in found]
        )
        self._volume_of_rank: Final = np.array([*found, NO_VOLUME], dtype=np.int64)
        # Volumes that are no candidates have a rank that no candidate has.
        self._rank_of_volume: Final = np.full(len(volumes) + 1, -1, dtype=np.int64)
        self._rank_of_volume[found] = np.arange(len(found))
        self._volumes: Final = volumes

    def match(self, nodes: Nodes, taken: Sequence[IntArray]) -> IntArray:
        """The volume that the claim gets on each node, those taken by other claims left out."""
        ranks = self._ranking.best(nodes, [self._rank_of_volume.take(other) for other in taken])
        matches = self._volume_of_rank.take(ranks)
        for index in reversed(self.kept):
            # The first one kept for the claim has the last word.
            reach = reach_of_affinity(self._volumes[index].spec.node_affinity)
            match = np.where(nodes_meeting(reach, nodes), index, NO_VOLUME)
            free = np.ones(len(nodes), dtype=np.bool_)
            for other in taken:
                free &= other != index
            matches = np.where(free, match, matches)
        return matches


class StaticMatching:
    """The claims that look for a volume, smallest first, and what there is for them.

    `volumes` are by class. Raises `ClaimSelectorError`.
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
        """For each claim the volume that it gets on each node, `NO_VOLUME` if none."""
        matches: list[IntArray] = []
        for name, candidates in zip(self._classes, self._candidates, strict=True):
            taken = [m for other, m in zip(self._classes, matches, strict=False) if other == name]
            matches.append(candidates.match(nodes, taken))
        return matches

    def volumes_for(self, index: int) -> Sequence[PersistentVolume]:
        """What the numbers in a claim's matches mean."""
        return self._volumes[self._classes[index]]


def _is_open_to(volume: PersistentVolume, claim: PersistentVolumeClaim, requested: int) -> bool:
    """Whether a volume could be this claim's at all, kept for it or not."""
    if volume.spec.claim_ref is not None and not is_bound_to_claim(volume, claim):
        return False
    wanted = claim.spec.volume_attributes_class_name or ""
    return (
        storage_capacity(volume) >= requested
        and not volume_modes_differ(claim, volume)
        and wanted == (volume.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_on_offer(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None
) -> bool:
    """Whether a volume that is kept for nobody suits this claim."""
    if volume.status.phase != AVAILABLE:
        # It may be on its way there; binding it now would only meet the controller's own update.
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
