"""Scores from the resources of nodes: the part that NodeResourcesFit and BalancedAllocation share.

The strategies of NodeResourcesFit turn `Amounts` into scores from 0 to 100: `least_allocated`,
`most_allocated`, `requested_to_capacity_ratio`.
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
    #: An upper bound of `allocatable`.
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


def score(
    nodes: Nodes,
    scorer: Scorer,
    specs: tuple[ResourceSpec, ...],
    requests: tuple[int, ...],
    *,
    non_zero: bool,
) -> IntArray:
    """Score nodes, each by those of the resources that it offers.

    `non_zero` counts upstream's default requests of cpu and memory for containers without their
    own. As a rule all nodes offer all resources; else nodes that offer the same are scored at once.
    """

    def compute(nodes: Nodes) -> IntArray:
        amounts = amounts_of(nodes, specs, requests, non_zero=non_zero)
        if amounts.allocatable.all():
            return scorer(amounts)
        codes, combinations = encode_flags([offered > 0 for offered in amounts.allocatable])
        scores = np.empty(len(nodes), dtype=np.int64)
        for code, combination in enumerate(combinations):
            positions = np.flatnonzero(codes == code)
            scores[positions] = scorer(amounts.select(combination, positions))
        return scores

    return nodes.per_node((scorer, specs, requests, non_zero), compute)


def amounts_of(
    nodes: Nodes, specs: Sequence[ResourceSpec], requests: Sequence[int], *, non_zero: bool
) -> Amounts:
    """Return the resources that count for the pod.

    Scalar resources that the pod does not request do not count, nor do names that are not resources
    of nodes. Devices that only DynamicResources knows (DRAExtendedResource) would be counted here.
    Source: `calculateNodeAllocatableRequest`.
    """
    counted = [
        (spec.name, spec.weight, request)
        for spec, request in zip(specs, requests, strict=True)
        if spec.name in _NATIVE or (request and resources.is_scalar_resource_name(spec.name))
    ]
    names = [name for name, _, _ in counted]
    return Amounts(
        tuple([weight for _, weight, _ in counted]),
        nodes.allocatable_rows(names),
        nodes.requested_rows(names, non_zero=non_zero),
        np.array([request for _, _, request in counted], dtype=np.int64)[:, None],
        max([nodes.allocatable_max(name) for name in names], default=0),
    )


def least_allocated(amounts: Amounts) -> IntArray:
    """Return the weighted mean of the free percentages: the more is left, the better."""
    free = amounts.allocatable - _used(amounts)
    return _weighted_mean(amounts, _percent_of_allocatable(free, amounts))


def most_allocated(amounts: Amounts) -> IntArray:
    """Return the weighted mean of the used percentages: the more is used, the better."""
    return _weighted_mean(amounts, _percent_of_allocatable(_used(amounts), amounts))


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Scorer:
    """Return a scorer by a function of the used percentage, given by points on straight lines.

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
    return total.astype(np.int64)
