"""How evenly each feasible node would leave a pod's soft topology spread constraints.

For each constraint a node is charged for the matching pods in its domain, on the node itself where
the key is the hostname. Counts are weighed by the number of domains, so that a few large ones do
not drown many small ones.
Mirrors `podtopologyspread/scoring.go`, v1.36.3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE, round_half_away, truncated_div
from scheduler.plugins.pod_topology_spread.filtering import (
    PodCounts,
    all_keys_present,
    counted_nodes,
    sum_by_domain,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
    from scheduler.snapshot.columns import BoolArray, Codes, FloatArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_HOSTNAME: Final = "kubernetes.io/hostname"


class Charge(NamedTuple):
    """What a constraint charges a node: a count times a weight, and a bit more."""

    topology_key: str
    counts: IntArray
    #: Counted on each node, by row; otherwise in each domain, by code.
    is_by_node: bool
    weight: float
    surcharge: int


class SoftSpread:
    """What PreScore has found out about a pod with soft constraints.

    Where all topology keys are required, nodes that lack one are ignored: they score 0. Where they
    are not, a node without the key lies in a domain with all others without it.
    """

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: Sequence[SpreadConstraint],
        feasible: Nodes,
        *,
        requires_all_keys: bool,
    ) -> None:
        nodes = snapshot.nodes
        candidates = np.ones(len(nodes), dtype=np.bool_)
        judged = feasible
        #: Which of the feasible nodes are ignored; None for none of them.
        self.ignored: BoolArray | None = None
        if requires_all_keys:
            candidates = all_keys_present(nodes, constraints)
            present = all_keys_present(feasible, constraints)
            if np.count_nonzero(present) != len(feasible):
                self.ignored, judged = ~present, feasible.take(present)
        counts = PodCounts(snapshot, pod.namespace)
        counted = counted_nodes(pod, nodes, constraints, candidates)
        self.charges: Final = [
            _charge_by_node(constraint, counts.of(constraint), len(judged))
            if constraint.topology_key == _HOSTNAME
            else _charge_by_domain(constraint, counts.of(constraint), nodes, which, judged)
            for constraint, which in zip(constraints, counted, strict=True)
        ]

    def scores(self, nodes: Nodes) -> IntArray:
        """What each of the feasible nodes is charged in all; arbitrary for ignored ones."""
        total = np.zeros(len(nodes), dtype=np.float64)
        for charge in self.charges:
            codes = nodes.labels(charge.topology_key).codes
            if charge.is_by_node:
                points = _weighed(charge.counts.take(nodes.base_rows), charge)
            else:
                points = _weighed(charge.counts, charge).take(codes, mode="wrap")
            lacking = codes < 0
            if np.count_nonzero(lacking):
                points[lacking] = 0.0
            total += points
        return round_half_away(total)

    def normalized(self, scores: IntArray) -> IntArray:
        """100 for the least charge there is if that is 0, less for more; 0 for ignored nodes."""
        judged = scores if self.ignored is None else scores[~self.ignored]
        highest = int(judged.max(initial=0))
        if highest == 0:
            normalized = np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
        else:
            lowest = int(judged.min())
            normalized = truncated_div((highest + lowest - scores) * MAX_NODE_SCORE, highest)
        if self.ignored is not None:
            normalized[self.ignored] = 0
        return normalized


def _charge_by_node(constraint: SpreadConstraint, counts: IntArray, judged: int) -> Charge:
    weight = _normalizing_weight(judged)
    return Charge(constraint.topology_key, counts, True, weight, constraint.max_skew - 1)


def _charge_by_domain(
    constraint: SpreadConstraint,
    counts: IntArray,
    nodes: Nodes,
    counted: BoolArray,
    judged: Nodes,
) -> Charge:
    """Count the pods in each domain, on whichever nodes; weigh by the domains of judged nodes."""
    column = nodes.labels(constraint.topology_key)
    size = len(column.values) + 1
    codes = _with_absent_as_empty(column)
    sums = sum_by_domain(codes, counts, counted, size)
    seen = codes if len(judged) == len(nodes) else codes.take(judged.base_rows)
    domains = np.count_nonzero(np.bincount(seen, minlength=size))
    weight = _normalizing_weight(int(domains))
    return Charge(constraint.topology_key, sums, False, weight, constraint.max_skew - 1)


def _with_absent_as_empty(column: Codes[str]) -> NDArray[np.int32]:
    """A code for every node: no label is the same as an empty one, which Go's maps see to."""
    codes = column.codes
    absent = codes < 0
    if not np.count_nonzero(absent):
        return codes
    empty = column.isin(("",))
    code = codes[empty.argmax()] if np.count_nonzero(empty) else len(column.values)
    return np.where(absent, np.int32(code), codes)


def _normalizing_weight(size: int) -> float:
    """What a pod weighs where there are so many domains.

    Go's logarithm differs in the last bit for one size in a hundred; of all counts up to 200,000
    and sizes up to 20,000 none rounds to another score for it.
    """
    return math.log(size + 2)


def _weighed(counts: IntArray, charge: Charge) -> FloatArray:
    points = counts.astype(np.float64)
    points *= charge.weight
    points += charge.surcharge
    return points
