"""Score feasible nodes by a pod's soft topology spread constraints.

The raw score is the number of matching pods in the node's domain, on the node itself if the key is
the hostname, summed over all constraints. Counts are weighted by the number of domains, so that
constraints with few large domains do not dominate.
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

    from scheduler.api.tolerations import Tolerates
    from scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
    from scheduler.snapshot.columns import BoolArray, Codes, FloatArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_HOSTNAME: Final = "kubernetes.io/hostname"


class ConstraintScore(NamedTuple):
    """The raw score of one constraint: count times weight plus offset."""

    topology_key: str
    counts: IntArray
    #: `counts` is indexed by row; otherwise by code of the domain.
    is_by_node: bool
    weight: float
    offset: int


class PreScoreState:
    """Matching pods per domain for each soft constraint of a pod; upstream's `preScoreState`.

    With `requires_all_keys` nodes without all topology keys are ignored: they score 0. Otherwise
    all nodes without a key form one domain.
    """

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: Sequence[SpreadConstraint],
        feasible: Nodes,
        tolerates: Tolerates,
        *,
        requires_all_keys: bool,
    ) -> None:
        nodes = snapshot.nodes
        candidates = np.ones(len(nodes), dtype=np.bool_)
        scored = feasible
        #: The feasible nodes that are ignored; None if there is none.
        self.ignored: BoolArray | None = None
        if requires_all_keys:
            candidates = all_keys_present(nodes, constraints)
            present = all_keys_present(feasible, constraints)
            if np.count_nonzero(present) != len(feasible):
                self.ignored, scored = ~present, feasible.take(present)
        counts = PodCounts(snapshot, pod.namespace)
        counted = counted_nodes(pod, nodes, constraints, candidates, tolerates)
        self.constraint_scores: Final = [
            _score_by_node(constraint, counts.of(constraint), len(scored))
            if constraint.topology_key == _HOSTNAME
            else _score_by_domain(constraint, counts.of(constraint), nodes, which, scored)
            for constraint, which in zip(constraints, counted, strict=True)
        ]

    def scores(self, nodes: Nodes) -> IntArray:
        """Return the raw score of each feasible node; arbitrary for ignored ones."""
        total = np.zeros(len(nodes), dtype=np.float64)
        for one in self.constraint_scores:
            codes = nodes.labels(one.topology_key).codes
            if one.is_by_node:
                points = _weighted(one.counts.take(nodes.base_rows), one)
            else:
                points = _weighted(one.counts, one).take(codes, mode="wrap")
            lacking = codes < 0
            if np.count_nonzero(lacking):
                points[lacking] = 0.0
            total += points
        return round_half_away(total)

    def normalized(self, scores: IntArray) -> IntArray:
        """Return scores from 0 to 100, highest for the lowest raw score; 0 for ignored nodes."""
        scored = scores if self.ignored is None else scores[~self.ignored]
        highest = int(scored.max(initial=0))
        if highest == 0:
            normalized = np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
        else:
            lowest = int(scored.min())
            normalized = truncated_div((highest + lowest - scores) * MAX_NODE_SCORE, highest)
        if self.ignored is not None:
            normalized[self.ignored] = 0
        return normalized


def _score_by_node(constraint: SpreadConstraint, counts: IntArray, scored: int) -> ConstraintScore:
    weight = _normalizing_weight(scored)
    return ConstraintScore(constraint.topology_key, counts, True, weight, constraint.max_skew - 1)


def _score_by_domain(
    constraint: SpreadConstraint,
    counts: IntArray,
    nodes: Nodes,
    counted: BoolArray,
    scored: Nodes,
) -> ConstraintScore:
    """Count the pods of all counted nodes by domain; the weight depends on the scored nodes."""
    column = nodes.labels(constraint.topology_key)
    size = len(column.values) + 1
    codes = _with_absent_as_empty(column)
    sums = sum_by_domain(codes, counts, counted, size)
    seen = codes if len(scored) == len(nodes) else codes.take(scored.base_rows)
    domains = np.count_nonzero(np.bincount(seen, minlength=size))
    weight = _normalizing_weight(int(domains))
    return ConstraintScore(constraint.topology_key, sums, False, weight, constraint.max_skew - 1)


def _with_absent_as_empty(column: Codes[str]) -> NDArray[np.int32]:
    """Return a code for every node: a missing label equals an empty one, as in Go's maps."""
    codes = column.codes
    absent = codes < 0
    if not np.count_nonzero(absent):
        return codes
    empty = column.isin(("",))
    code = codes[empty.argmax()] if np.count_nonzero(empty) else len(column.values)
    return np.where(absent, np.int32(code), codes)


def _normalizing_weight(size: int) -> float:
    """Return the weight of a pod with `size` domains.

    Go's logarithm differs in the last bit for one size in a hundred. No count up to 200,000 with a
    size up to 20,000 rounds to another score because of it.
    """
    return math.log(size + 2)


def _weighted(counts: IntArray, one: ConstraintScore) -> FloatArray:
    points = counts.astype(np.float64)
    points *= one.weight
    points += one.offset
    return points
