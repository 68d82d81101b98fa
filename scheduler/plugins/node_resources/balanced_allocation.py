"""NodeResourcesBalancedAllocation: prefer nodes that the pod leaves evenly used.

A node is even when the used fractions of its resources lie close together: 100 less their standard
deviation in percent. The score is 50 plus half of the gain of this number by the pod, so that 75
means no difference. Before 1.36 it is the number with the pod.
Mirrors `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go` to the last bit of
its floats: same operations, same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.config.versions import SchedulerVersion
from scheduler.devices.manager import DraManager
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, skip
from scheduler.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs
from scheduler.plugins.node_resources.resource_allocation import Amounts, requests_of, score

if TYPE_CHECKING:
    from scheduler.snapshot.columns import FloatArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: The pod's request for each configured resource.
_REQUESTS: Final = StateKey[tuple[int, ...]]("PreScoreNodeResourcesBalancedAllocation")

_HALF: Final = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    """Do not use up one resource of a node while another lies idle."""

    only_ranks = True
    Args = NodeResourcesBalancedAllocationArgs
    args: NodeResourcesBalancedAllocationArgs
    reads = ("resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules")

    def __init__(self) -> None:
        self._resources: Final = self.args.resources
        is_gain = self.handle.version >= SchedulerVersion.V1_36
        self._rule: Final = _improvement if is_gain else _evenness_with_pod

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without a request for one of the resources."""
        requests = self._requests(pod)
        if not any(requests):
            return skip()
        state.write(_REQUESTS, requests)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        # Nothing is stored if the profile disables PreScore.
        requests = state.find(_REQUESTS) or self._requests(pod)
        if not any(requests):
            return np.zeros(len(nodes), dtype=np.int64)
        return score(
            nodes,
            self._rule,
            self._resources,
            requests,
            non_zero=False,
            devices=self.handle.shared(DraManager),
        )

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        return requests_of(self._resources, pod.requests.resources)


def _improvement(amounts: Amounts) -> IntArray:
    """Return 50 plus half of the gain in evenness, from 50 to 100 (`balancedResourceScorer`)."""
    resources_total, nodes_total = amounts.allocatable.shape
    if resources_total < 2:
        return np.full(nodes_total, _HALF + _HALF // 2, dtype=np.int64)
    allocated = amounts.allocated
    allocatable = amounts.allocatable.astype(np.float64)
    fractions = np.empty((2, *allocated.shape))
    np.divide(allocated + amounts.requests, allocatable, out=fractions[0])
    np.divide(allocated, allocatable, out=fractions[1])
    # Rare, as Filter lets nothing overflow; the maximum takes half the time of the minimum.
    if fractions.max(initial=0.0) > 1:
        np.minimum(fractions, 1.0, out=fractions)
    gain, without_pod = _evenness(fractions.swapaxes(0, 1))
    gain -= without_pod
    # Half of 50 + gain, cut to an integer, and then another 50. The sum is not negative, as the
    # deviation is at most a half. Halves are exact as floats.
    gain *= 0.5
    gain += _HALF + _HALF / 2
    return cast("IntArray", gain.astype(np.int64))


def _evenness_with_pod(amounts: Amounts) -> IntArray:
    """Return the evenness of the node with the pod (`balancedResourceScorer` up to v1.35)."""
    resources_total, nodes_total = amounts.allocatable.shape
    if resources_total < 2:
        return np.full(nodes_total, MAX_NODE_SCORE, dtype=np.int64)
    fractions = (amounts.allocated + amounts.requests) / amounts.allocatable.astype(np.float64)
    return cast("IntArray", _evenness(np.minimum(fractions, 1.0)).astype(np.int64))


def _evenness(fractions: FloatArray) -> FloatArray:
    """Return 100 less the standard deviation of two or more fractions, in whole percent.

    The fractions of the first resource come first, then those of the second, and so on. They are
    added in this order; numpy's `sum` adds in another one.
    Source: `balancedResourceScore`.
    """
    if len(fractions) == 2:
        # The deviation of two numbers is half their distance: (1 - distance / 2) * 100. Halving
        # changes only the exponent of a float, so halving the 100 gives the same bits.
        evenness: FloatArray = fractions[0] - fractions[1]
        np.abs(evenness, out=evenness)
        np.subtract(2.0, evenness, out=evenness)
        evenness *= float(_HALF)
    else:
        evenness = 1.0 - _standard_deviation(fractions)
        evenness *= float(MAX_NODE_SCORE)
    np.trunc(evenness, out=evenness)
    return evenness


def _standard_deviation(fractions: FloatArray) -> FloatArray:
    total = fractions[0].copy()
    for fraction in fractions[1:]:
        total += fraction
    mean = total / len(fractions)
    squares = np.zeros(mean.shape)
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
    squares /= len(fractions)
    np.sqrt(squares, out=squares)
    return squares
