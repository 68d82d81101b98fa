"""Score nodes by the share of storage that a pod would use, per storage class.

Only with the gate StorageCapacityScoring. On nodes with a matching volume for some claim these
volumes count, on all other nodes the storage pools that would provision new volumes.
Source: `pkg/scheduler/framework/plugins/volumebinding/{scorer,volume_binding}.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.quantity import parse_quantity, value
from scheduler.api.volumes import requested_storage, storage_capacity
from scheduler.framework.arithmetic import round_half_away, truncated_div
from scheduler.plugins._shape_score import broken_linear
from scheduler.plugins.volume_binding.unbound_claims import NO_CAPACITY, NO_VOLUME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.plugins._shape_score import UtilizationShapePoint
    from scheduler.plugins.volume_binding.pod_volumes import UnboundClaim
    from scheduler.snapshot.columns import BoolArray, IntArray

_MAX_UTILIZATION: Final = 100


class StorageUse(NamedTuple):
    """A pod's use of one storage class; arrays by node."""

    #: Bytes.
    requested: IntArray
    #: Bytes.
    capacity: IntArray
    #: The pod would use the class on the node.
    used: BoolArray

    @staticmethod
    def none(total: int) -> StorageUse:
        return StorageUse(
            np.zeros(total, dtype=np.int64),
            np.zeros(total, dtype=np.int64),
            np.zeros(total, dtype=np.bool_),
        )


class VolumeCapacityScorer:
    """Score nodes by a function of the used percentage."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._table: Final = np.array(
            [broken_linear(shape, p) for p in range(_MAX_UTILIZATION + 1)], dtype=np.int64
        )

    def score(self, uses: Sequence[StorageUse], total: int) -> IntArray:
        """Return, for each of `total` nodes, the mean over the used classes; 0 without any."""
        scores = np.zeros(total, dtype=np.int64)
        classes = np.zeros(total, dtype=np.int64)
        for use in uses:
            scores += np.where(use.used, self._class_scores(use), 0)
            classes += use.used
        return round_half_away(scores / np.maximum(classes, 1))

    def _class_scores(self, use: StorageUse) -> IntArray:
        """Return one class's score on each node; a request above the capacity counts as full."""
        full = (use.capacity == 0) | (use.requested > use.capacity)
        percent = truncated_div(use.requested * _MAX_UTILIZATION, np.where(full, 1, use.capacity))
        return self._table.take(np.where(full, _MAX_UTILIZATION, percent), mode="clip")


def storage_uses(unbound: Sequence[UnboundClaim], rows: IntArray) -> list[StorageUse]:
    """Return the use of each storage class on these rows of the snapshot."""
    static: dict[str, StorageUse] = {}
    dynamic: dict[str, StorageUse] = {}
    has_static = np.zeros(len(rows), dtype=np.bool_)
    for one in unbound:
        requested = value(requested_storage(one.claim))
        matches = one.matches.take(rows)
        has_static |= matches != NO_VOLUME
        for index in np.unique(matches).tolist():
            if index != NO_VOLUME:
                volume = one.volumes[index]
                use = static.setdefault(volume.spec.storage_class_name, StorageUse.none(len(rows)))
                where = matches == index
                use.requested[where] += requested
                use.capacity[where] += value(storage_capacity(volume))
                use.used[where] = True
    for one in unbound:
        capacities = np.where(has_static, NO_CAPACITY, one.capacities.take(rows))
        for index in np.unique(capacities).tolist():
            pool = one.provision.capacity(index) if one.provision is not None else None
            if pool is not None:
                name = one.claim.spec.storage_class_name or ""
                use = dynamic.setdefault(name, StorageUse.none(len(rows)))
                where = capacities == index
                use.requested[where] += value(requested_storage(one.claim))
                # Claims of a class share a pool, whose capacity counts once.
                use.capacity[where] = value(parse_quantity(pool.capacity or 0))
                use.used[where] = True
    return [*static.values(), *dynamic.values()]
