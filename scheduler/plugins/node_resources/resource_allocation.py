"""Scores from the resources of nodes: the part that NodeResourcesFit and BalancedAllocation share.

The strategies of NodeResourcesFit turn `Amounts` into scores from 0 to 100: `least_allocated`,
`most_allocated`, `requested_to_capacity_ratio`.
Mirrors `pkg/scheduler/framework/plugins/noderesources/{resource_allocation,least_allocated,
most_allocated,requested_to_capacity_ratio}.go` and `../helper/shape_score.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.api import resources
from scheduler.framework.arithmetic import MAX_NODE_SCORE, percent, round_half_away
from scheduler.plugins._shape_score import broken_linear
from scheduler.snapshot.columns import FloatArray, IntArray, encode_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Node
    from scheduler.devices.counts import DeviceCount
    from scheduler.devices.manager import DraManager
    from scheduler.plugins._shape_score import UtilizationShapePoint
    from scheduler.plugins.node_resources.args import ResourceSpec
    from scheduler.snapshot.nodes import Nodes

_MAX_UTILIZATION: Final = 100
_NATIVE: Final = (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE)


class Amounts(NamedTuple):
    """The resources of some nodes, in the scheduler's units.

    The arrays have a row per resource and a column per node, so that one numpy operation does the
    work for all resources: for thousands of nodes its overhead is a third of its time.
    """

    weights: tuple[int, ...]
    allocatable: IntArray
    #: The sum of the requests of the pods on each node.
    allocated: IntArray
    #: The requests of the incoming pod: one column.
    requests: IntArray
    #: An upper bound of `allocatable`, from all nodes of the cluster.
    allocatable_max: int

    def select(self, which: Sequence[bool], nodes: IntArray) -> Amounts:
        """Return some of the resources of some of the nodes."""
        kept = np.flatnonzero(which)
        weights = tuple([self.weights[number] for number in kept.tolist()])
        rows = kept[:, None]
        return Amounts(
            weights,
            self.allocatable[rows, nodes],
            self.allocated[rows, nodes],
            self.requests[kept],
            self.allocatable_max,
        )


#: Scores nodes of which each offers some of every resource.
Scorer = Callable[[Amounts], IntArray]


def requests_of(specs: Sequence[ResourceSpec], requests: Mapping[str, int]) -> tuple[int, ...]:
    """Return the request for each configured resource, in the scheduler's units."""
    return tuple([requests.get(spec.name, 0) for spec in specs])


class _ScoredRequests:
    """The resources that count for a pod, and its requests. Equal ones are the same object."""

    __slots__ = ("names", "non_zero", "requests", "weights")

    def __init__(
        self, specs: Sequence[ResourceSpec], requests: Sequence[int], *, non_zero: bool
    ) -> None:
        counted = [
            (spec.name, spec.weight, request)
            for spec, request in zip(specs, requests, strict=True)
            if spec.name in _NATIVE or (request and resources.is_scalar_resource_name(spec.name))
        ]
        self.names: Final = tuple([name for name, _, _ in counted])
        self.weights: Final = tuple([weight for _, weight, _ in counted])
        self.requests: Final = np.array([r for _, _, r in counted], dtype=np.int64)[:, None]
        self.non_zero: Final = non_zero


_scored_requests: Final = functools.lru_cache(maxsize=4096)(_ScoredRequests)


def score(
    nodes: Nodes,
    scorer: Scorer,
    specs: tuple[ResourceSpec, ...],
    requests: tuple[int, ...],
    *,
    non_zero: bool,
    devices: DraManager,
) -> IntArray:
    """Score nodes, each by the resources that it offers.

    Scalar resources that the pod does not request do not count, nor do names that are not resources
    of nodes. If a node has none of an extended resource, the devices behind the resource count.
    `non_zero` counts upstream's default requests for containers without requests of cpu and
    memory. Source: `calculateNodeAllocatableRequest`.
    """
    scored = _scored_requests(specs, requests, non_zero=non_zero)
    backed = devices.classes.backed_by_devices(scored.names)
    if backed:
        return _score(nodes, scorer, scored, {name: devices.counts(name) for name in backed})
    return nodes.per_node((scorer, scored), lambda some: _score(some, scorer, scored, {}))


def score_placement(
    nodes: Nodes, specs: tuple[ResourceSpec, ...], requests: Sequence[tuple[int, ...]]
) -> int:
    """Score all nodes of a placement as one: the more of their resources is used, the better.

    `requests` are the requests of the members that would come. Source: `scorePlacement`.
    """
    wanted = tuple(sum(amounts) for amounts in zip(*requests, strict=True))
    scored = _scored_requests(specs, wanted or (0,) * len(specs), non_zero=True)
    allocatable = nodes.allocatable_rows(scored.names)
    allocated = nodes.requested_rows(scored.names, non_zero=True)
    used = np.where(allocatable > 0, allocated, 0).sum(axis=1) + scored.requests[:, 0]
    score = weights = 0
    for weight, part, whole in zip(
        scored.weights, used.tolist(), allocatable.sum(axis=1).tolist(), strict=True
    ):
        if whole:
            score += min(part, whole) * MAX_NODE_SCORE // whole * weight
            weights += weight
    return score // weights if weights else 0


def _score(
    nodes: Nodes,
    scorer: Scorer,
    scored: _ScoredRequests,
    counts: Mapping[str, Callable[[Node], DeviceCount] | None],
) -> IntArray:
    """Score nodes; without all resources, nodes that offer equal resources at once.

    `counts` has the resources that devices provide.
    """
    bounds = [nodes.allocatable_bounds(name) for name in scored.names]
    allocatable = nodes.allocatable_rows(scored.names)
    allocated = nodes.requested_rows(scored.names, non_zero=scored.non_zero)
    for name, count in counts.items():
        row = scored.names.index(name)
        for position in np.flatnonzero(allocatable[row] == 0).tolist() if count else ():
            assert count is not None
            total, used = count(nodes[position].node)
            if total:
                allocatable[row, position], allocated[row, position] = total, used
    amounts = Amounts(
        scored.weights,
        allocatable,
        allocated,
        scored.requests,
        int(allocatable.max(initial=0)) if counts else max([m for _, m in bounds], default=0),
    )
    if not counts and all(least > 0 for least, _ in bounds):
        return scorer(amounts)
    codes, combinations = encode_flags([offered > 0 for offered in amounts.allocatable])
    scores = np.empty(len(nodes), dtype=np.int64)
    for code, combination in enumerate(combinations):
        positions = np.flatnonzero(codes == code)
        scores[positions] = scorer(amounts.select(combination, positions))
    return scores


def least_allocated(amounts: Amounts) -> IntArray:
    """Return the weighted mean of the free percentages: the more is left, the better."""
    free = amounts.allocatable - _used(amounts)
    return _weighted_mean(amounts, _percent_of_allocatable(free, amounts))


def most_allocated(amounts: Amounts) -> IntArray:
    """Return the weighted mean of the used percentages: the more is used, the better."""
    return _weighted_mean(amounts, _percent_of_allocatable(_used(amounts), amounts))


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Scorer:
    """Return a scorer by a function of the used percentage: straight lines between points.

    A resource with score 0 is left out of the mean.
    """
    table = np.array([broken_linear(shape, p) for p in range(_MAX_UTILIZATION + 1)])

    def score(amounts: Amounts) -> IntArray:
        total = np.zeros(amounts.allocatable.shape[1])
        weights = np.zeros(amounts.allocatable.shape[1])
        used = _percent_of_allocatable(_used(amounts), amounts)
        for weight, of_resource in zip(amounts.weights, used, strict=True):
            scores = table.take(of_resource.astype(np.intp), mode="clip")
            total += scores * weight
            weights += (scores > 0) * weight
        # Where no weight counts the total is 0 as well.
        return round_half_away(total / np.maximum(weights, 1.0))

    return score


def _used(amounts: Amounts) -> IntArray:
    """Return the amounts used with the incoming pod; at most all that is allocatable."""
    used = amounts.allocated + amounts.requests
    np.minimum(used, amounts.allocatable, out=used)
    return used


def _percent_of_allocatable(part: IntArray, amounts: Amounts) -> FloatArray:
    return percent(part, amounts.allocatable, whole_max=amounts.allocatable_max)


def _weighted_mean(amounts: Amounts, percentages: FloatArray) -> IntArray:
    """Return the mean, cut to whole numbers. Floats are exact: all numbers are whole and small."""
    weights = amounts.weights
    if not weights:
        return np.zeros(percentages.shape[1], dtype=np.int64)
    total = percentages[0] if weights[0] == 1 else percentages[0] * float(weights[0])
    for percentage, weight in zip(percentages[1:], weights[1:], strict=True):
        total += percentage if weight == 1 else percentage * float(weight)
    total /= float(sum(weights))
    return cast("IntArray", total.astype(np.int64))
