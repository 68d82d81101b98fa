"""NodeResourcesBalancedAllocation: prefer nodes that the pod leaves evenly used.

A node is even when the used fractions of its resources lie close together: 100 less their standard
deviation in percent. The score is 50 plus half of how much better that is with the pod than without
it, so that 75 means no difference.
Mirrors `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`, v1.36.3, to the last
bit of its floats: same operations, same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, skip
from scheduler.plugins.node_resources.args import (
    NodeResourcesBalancedAllocationArgs,
)
from scheduler.plugins.node_resources.resource_allocation import Share, ShareRule, requests_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.snapshot.columns import FloatArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: What the pod asks for of each configured resource.
_REQUESTS: Final = StateKey[tuple[int, ...]]("PreScoreNodeResourcesBalancedAllocation")

_HALF: Final = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    """Do not use up one resource of a node while another lies idle."""

    Args = NodeResourcesBalancedAllocationArgs
    args: NodeResourcesBalancedAllocationArgs
    reads = ("deviceclasses",)

    def __init__(self) -> None:
        self._resources: Final = self.args.resources

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods that ask for none of the resources: they change nothing anywhere."""
        requests = self._requests(pod)
        if not any(requests):
            return skip()
        state.write(_REQUESTS, requests)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """A score from 50 to 100."""
        # Nothing is written where the profile leaves PreScore out; then the pod is asked again.
        requests = state.find(_REQUESTS) or self._requests(pod)
        if not any(requests):
            return np.zeros(len(nodes), dtype=np.int64)
        rule = ShareRule(self._resources, requests, _improvement, non_zero=False)
        return nodes.by_load(rule)[1]

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        return requests_of(self._resources, pod.requests.resources)


def _improvement(shares: Sequence[Share], nodes_total: int) -> IntArray:
    """How much more even the nodes are with the pod (`balancedResourceScorer`)."""
    if len(shares) < 2:
        return np.full(nodes_total, _HALF + _HALF // 2, dtype=np.int64)
    fractions_with, fractions_without = [], []
    for share in shares:
        allocatable = share.allocatable.astype(np.float64)
        with_pod = (share.allocated + share.request).astype(np.float64)
        with_pod /= allocatable
        without_pod = share.allocated.astype(np.float64)
        without_pod /= allocatable
        # Rare, as Filter lets nothing overflow; one look is cheaper than two cuts.
        if with_pod.max(initial=0.0) > 1:
            np.minimum(with_pod, 1.0, out=with_pod)
            np.minimum(without_pod, 1.0, out=without_pod)
        fractions_with.append(with_pod)
        fractions_without.append(without_pod)
    gain = _evenness(fractions_with)
    gain -= _evenness(fractions_without)
    # Half of 50 + gain, cut to an integer, and then another 50. Halves are exact as floats.
    gain *= 0.5
    gain += _HALF / 2
    score = gain.astype(np.int64)
    score += _HALF
    return score


def _evenness(fractions: Sequence[FloatArray]) -> FloatArray:
    """100 less the standard deviation of two or more fractions, in percent, cut to whole numbers.

    Sums are taken one array after another, not by numpy's `sum`, which adds in another order.
    Source: `balancedResourceScore`.
    """
    if len(fractions) == 2:
        # Of two, the deviation is half their distance: (1 - distance / 2) * 100. Halving changes
        # no bit but the exponent's, so it may as well be done to the 100.
        evenness = fractions[0] - fractions[1]
        np.abs(evenness, out=evenness)
        np.subtract(2.0, evenness, out=evenness)
        evenness *= float(_HALF)
    else:
        evenness = 1.0 - _standard_deviation(fractions)
        evenness *= float(MAX_NODE_SCORE)
    np.trunc(evenness, out=evenness)
    return evenness


def _standard_deviation(fractions: Sequence[FloatArray]) -> FloatArray:
    total = fractions[0].copy()
    for fraction in fractions[1:]:
        total += fraction
    mean = total / len(fractions)
    squares = np.zeros(len(mean))
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
    squares /= len(fractions)
    np.sqrt(squares, out=squares)
    return squares
