"""How resources on nodes become scores: what two plugins share.

A `Share` is one resource on all nodes in view. The three strategies of NodeResourcesFit turn shares
into scores from 0 to 100: `least_allocated`, `most_allocated`, `requested_to_capacity_ratio`.
Mirrors `pkg/scheduler/framework/plugins/noderesources/{resource_allocation,least_allocated,
most_allocated,requested_to_capacity_ratio}.go` and `../helper/shape_score.go`, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api import resources
from scheduler.framework.arithmetic import (
    percent,
    round_half_away,
)
from scheduler.plugins._shape_score import broken_linear
from scheduler.snapshot.columns import FloatArray, IntArray, encode_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.plugins._shape_score import UtilizationShapePoint
    from scheduler.plugins.node_resources.args import ResourceSpec
    from scheduler.snapshot.nodes import Nodes

_MAX_UTILIZATION: Final = 100
_NATIVE: Final = (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE)


class Share(NamedTuple):
    """One resource on all nodes in view, in the scheduler's units."""

    weight: int
    #: What each node offers.
    allocatable: IntArray
    #: What its pods have asked for.
    allocated: IntArray
    #: What the pod to be placed asks for.
    request: int
    #: Between these all nodes' offers lie, and those of nodes that are not in view.
    least: int
    most: int

    def take(self, rows: IntArray) -> Share:
        """The same resource on some of the nodes."""
        return self._replace(
            allocatable=self.allocatable.take(rows), allocated=self.allocated.take(rows)
        )


#: Scores so many nodes by shares of which every node offers some.
Scorer = Callable[[Sequence[Share], int], IntArray]


def requests_of(specs: Sequence[ResourceSpec], requests: Mapping[str, int]) -> tuple[int, ...]:
    """What of each configured resource is asked for; `requests` are counted."""
    return tuple([requests.get(spec.name, 0) for spec in specs])


class ShareRule:
    """A scorer with the resources it looks at and what the pod asks of them: a rule about loads."""

    def __init__(
        self,
        specs: tuple[ResourceSpec, ...],
        requests: tuple[int, ...],
        scorer: Scorer,
        *,
        non_zero: bool,
    ) -> None:
        self._key: Final = (specs, requests, scorer, non_zero)
        self._hash: Final = hash((requests, non_zero))

    def __call__(self, nodes: Nodes) -> IntArray:
        specs, requests, scorer, non_zero = self._key
        shares = shares_of(nodes, specs, requests, non_zero=non_zero)
        return score_shares(shares, len(nodes), scorer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShareRule) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


def shares_of(
    nodes: Nodes, specs: Sequence[ResourceSpec], requests: Sequence[int], *, non_zero: bool
) -> list[Share]:
    """The resources that count for this pod, as they are on the nodes.

    Scalar resources that the pod does not ask for do not count, nor do names that are no resource
    of a node. `non_zero` takes cpu and memory with upstream's defaults for containers that do not
    ask. Devices that only DynamicResources knows (DRAExtendedResource) would be counted here.
    Source: `calculateNodeAllocatableRequest`.
    """
    shares = []
    for spec, request in zip(specs, requests, strict=True):
        name = spec.name
        if name in (resources.CPU, resources.MEMORY) and non_zero:
            allocated = nodes.non_zero_requested(name)
        elif name in _NATIVE or (request and resources.is_scalar_resource_name(name)):
            allocated = nodes.requested(name)
        else:
            continue
        least, most = nodes.allocatable_bounds(name)
        allocatable = nodes.allocatable(name)
        shares.append(Share(spec.weight, allocatable, allocated, request, least, most))
    return shares


def score_shares(shares: Sequence[Share], nodes_total: int, scorer: Scorer) -> IntArray:
    """Score nodes, leaving out of each node's score the resources that it does not offer.

    As a rule all nodes offer all of them. Where not, nodes that offer the same are scored together.
    """
    if all(share.least > 0 for share in shares):
        return scorer(shares, nodes_total)
    codes, combinations = encode_flags([share.allocatable > 0 for share in shares])
    scores = np.empty(nodes_total, dtype=np.int64)
    for code, combination in enumerate(combinations):
        rows = np.flatnonzero(codes == code)
        taken = [share.take(rows) for share, has in zip(shares, combination, strict=True) if has]
        scores[rows] = scorer(taken, len(rows))
    return scores


def least_allocated(shares: Sequence[Share], nodes_total: int) -> IntArray:
    """The more is left, the better: the weighted mean of the free percentages."""
    free = [percent(s.allocatable - _used(s), s.allocatable, whole_max=s.most) for s in shares]
    return _weighted_mean(shares, free, nodes_total)


def most_allocated(shares: Sequence[Share], nodes_total: int) -> IntArray:
    """The more is taken, the better: the weighted mean of the taken percentages."""
    taken = [percent(_used(s), s.allocatable, whole_max=s.most) for s in shares]
    return _weighted_mean(shares, taken, nodes_total)


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Scorer:
    """A scorer by a function of the taken percentage, given by points with straight lines between.

    A resource that scores 0 counts neither way.
    """
    table = np.array([broken_linear(shape, p) for p in range(_MAX_UTILIZATION + 1)])

    def score(shares: Sequence[Share], nodes_total: int) -> IntArray:
        total = np.zeros(nodes_total)
        weights = np.zeros(nodes_total)
        for share in shares:
            taken = percent(_used(share), share.allocatable, whole_max=share.most)
            scores = table.take(taken.astype(np.intp), mode="clip")
            total += scores * share.weight
            weights += (scores > 0) * share.weight
        # Where no weight counts the total is 0 as well.
        return round_half_away(total / np.maximum(weights, 1.0))

    return score


def _used(share: Share) -> IntArray:
    """What would be taken with the pod; at most everything."""
    used = share.allocated + share.request
    np.minimum(used, share.allocatable, out=used)
    return used


def _weighted_mean(
    shares: Sequence[Share], percentages: Sequence[FloatArray], nodes_total: int
) -> IntArray:
    """Cut to whole numbers. Exact in floats, as percentages and weights are whole and small."""
    if not shares:
        return np.zeros(nodes_total, dtype=np.int64)
    weighted = [
        percentage if share.weight == 1 else percentage * float(share.weight)
        for share, percentage in zip(shares, percentages, strict=True)
    ]
    total = weighted[0]
    for more in weighted[1:]:
        total += more
    total /= float(sum(share.weight for share in shares))
    return total.astype(np.int64)
