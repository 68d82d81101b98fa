"""How pods lie over the domains of topology spread constraints, counted over all nodes at once.

A domain is a value of a topology key; a node's domain is its code in the label's column. Nothing
here looks at one pod, or one node, at a time.

    code of each node ---+
    pods on each node ---+--> pods in each domain --> the least of them --> verdict on each node
    nodes that count ----+

In a dry run one state serves many worlds. In the world of node i only the pods on node i differ, so
its deltas are kept under its row, and only its verdict is worked out anew: of all domains none but
its own has another count, and the least count elsewhere is one of the two least there were.
Mirrors `podtopologyspread/filtering.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from scheduler.framework.status import Rejections, unresolvable, unschedulable
from scheduler.plugins._topology_spread_constraints import MatchingPods
from scheduler.snapshot.columns import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from scheduler.api.core import Taint
    from scheduler.plugins._topology_spread_constraints import SpreadConstraint
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_index import PodKind
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

__all__ = [
    "ERR_REASON_CONSTRAINTS_NOT_MATCH",
    "HardSpread",
    "PodCounts",
    "all_keys_present",
    "counted_nodes",
    "sum_by_domain",
]

ERR_REASON_CONSTRAINTS_NOT_MATCH: Final = "node(s) didn't match pod topology spread constraints"

_STATUSES: Final = (
    unresolvable(f"{ERR_REASON_CONSTRAINTS_NOT_MATCH} (missing required label)"),
    unschedulable(ERR_REASON_CONSTRAINTS_NOT_MATCH),
)
_MISSING_LABEL: Final = 0
_TOO_SKEWED: Final = 1

#: The least count where no domain has been counted (`math.MaxInt32`).
_NO_DOMAIN: Final = 2**31 - 1


class PodCounts:
    """The pods on each node that a selector counts; equal selectors are asked once per cycle."""

    def __init__(self, snapshot: Snapshot, namespace: str) -> None:
        self._snapshot: Final = snapshot
        self._namespace: Final = namespace
        self._by_rule: Final[dict[MatchingPods, IntArray]] = {}

    def of(self, constraint: SpreadConstraint) -> IntArray:
        """How many on each node of the snapshot."""
        rule = MatchingPods(self._namespace, constraint.selector)
        counts = self._by_rule.get(rule)
        if counts is None:
            if rule.counts_nothing:
                counts = np.zeros(len(self._snapshot), dtype=np.int64)
            else:
                counts = self._snapshot.count_pods(rule)
            self._by_rule[rule] = counts
        return counts


def all_keys_present(nodes: Nodes, constraints: Iterable[SpreadConstraint]) -> BoolArray:
    """Which nodes have all topology keys."""
    present = np.ones(len(nodes), dtype=np.bool_)
    for key in dict.fromkeys(constraint.topology_key for constraint in constraints):
        present &= nodes.labels(key).present
    return present


def counted_nodes(
    pod: PodInfo,
    nodes: Nodes,
    constraints: Sequence[SpreadConstraint],
    candidates: BoolArray,
) -> list[BoolArray]:
    """Which of the candidates meet each constraint's policies: only their pods count for it.

    Mirrors `matchNodeInclusionPolicies`. The arrays may be shared, and are not to be written to.
    """
    affinity, tolerations = pod.required_node_affinity, pod.spec.tolerations

    def are_tolerated(taints: Sequence[Taint] | None) -> bool:
        return find_untolerated_taint(taints or (), tolerations, HARD_EFFECTS) is None

    allowed = tolerated = candidates
    if not affinity.is_empty and any(c.honors_affinity for c in constraints):
        allowed = candidates & nodes.allowed_by(affinity)
    if any(c.honors_taints for c in constraints):
        tolerated = candidates & nodes.taints.where(are_tolerated)

    def counted(constraint: SpreadConstraint) -> BoolArray:
        if not constraint.honors_taints:
            return allowed if constraint.honors_affinity else candidates
        return allowed & tolerated if constraint.honors_affinity else tolerated

    return [counted(constraint) for constraint in constraints]


def sum_by_domain(
    codes: NDArray[np.int32] | IntArray, counts: IntArray, counted: BoolArray, size: int
) -> IntArray:
    """The sum over the nodes that count in each of `size` domains, by code."""
    if np.count_nonzero(counted) != len(counted):
        codes, counts = codes[counted], counts[counted]
    return np.bincount(codes, weights=counts, minlength=size).astype(np.int64)


class _TwoLeast(NamedTuple):
    """The domain with the least count, and the least count of all others."""

    code: int
    count: int
    of_others: int


class _Domains:
    """One hard constraint: the pods in each domain, and how many a node's may have at most."""

    def __init__(
        self, constraint: SpreadConstraint, pod: PodInfo, nodes: Nodes, counted: BoolArray
    ) -> None:
        self.selector: Final = constraint.selector
        self.column: Final = nodes.labels(constraint.topology_key)
        self.codes: Final = self.column.codes
        self.counted: Final = counted
        self._size: Final = max(len(self.column.values), 1)
        #: How much a domain's count may exceed the least one.
        self._margin: Final = constraint.max_skew - int(constraint.selector.matches(pod.labels))
        self._is_any_counted: Final = bool(np.count_nonzero(counted))
        self._has_too_few: Final = self._count_domains(constraint) < constraint.min_domains

    def _count_domains(self, constraint: SpreadConstraint) -> int:
        """How many domains there are; 1 stands for any number where more are not asked for."""
        if constraint.min_domains <= 1:
            return int(self._is_any_counted)
        return len(self.codes_counted)

    def count(self, counts: IntArray) -> NDArray[np.int16]:
        """Take in the pods on each node; the verdict on each node."""
        self.by_domain = sum_by_domain(self.codes, counts, self.counted, self._size)
        by_node = self.by_domain.take(self.codes, mode="wrap")
        of_counted = by_node if self.counted.all() else by_node[self.counted]
        self.least = int(of_counted.min()) if self._is_any_counted else _NO_DOMAIN
        return self._verdicts(self.codes, by_node, self.least)

    @property
    def codes_counted(self) -> IntArray:
        """The domains that there are, by code."""
        nodes = np.bincount(self.codes[self.counted], minlength=self._size)
        return np.flatnonzero(nodes)

    @functools.cached_property
    def _two_least(self) -> _TwoLeast:
        codes = self.codes_counted
        counts = self.by_domain[codes]
        lowest = int(counts.argmin())
        others = np.delete(counts, lowest)
        return _TwoLeast(
            int(codes[lowest]), int(counts[lowest]), int(others.min(initial=_NO_DOMAIN))
        )

    def verdicts(self, rows: IntArray, deltas: IntArray) -> NDArray[np.int16]:
        """The verdict on the nodes at these rows, each with so many more pods, in its own world."""
        codes = self.codes.take(rows)
        counts = self.by_domain.take(codes, mode="wrap") + deltas
        changed = deltas != 0
        if not changed.any():
            return self._verdicts(codes, counts, self.least)
        # Only nodes that count have deltas, so their domains are among those counted.
        two = self._two_least
        of_others = np.where(codes == two.code, two.of_others, two.count)
        least = np.where(changed, np.minimum(counts, of_others), self.least)
        return self._verdicts(codes, counts, least)

    def _verdicts(
        self, codes: NDArray[np.int32], counts: IntArray, least: IntArray | int
    ) -> NDArray[np.int16]:
        """A status code per node: of a label that is missing before all else."""
        limit = self._margin if self._has_too_few else least + self._margin
        verdicts = np.where(counts > limit, np.int16(_TOO_SKEWED), np.int16(ABSENT))
        lacking = codes < 0
        if np.count_nonzero(lacking):
            verdicts[lacking] = _MISSING_LABEL
        return verdicts


class HardSpread:
    """What PreFilter has found out about a pod with hard constraints.

    `deltas` are the pods that a dry run has put on (or taken off) each node, by constraint and by
    row of the snapshot; None before the first.
    """

    __slots__ = ("_deltas", "_domains", "_has_keys", "_matching", "_namespace", "_verdicts")

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: Sequence[SpreadConstraint],
        in_view: IntArray | None,
    ) -> None:
        """Count over the snapshot, or over the rows in view only."""
        nodes = snapshot.nodes
        has_keys = all_keys_present(nodes, constraints)
        if in_view is not None:
            seen = np.zeros(len(nodes), dtype=np.bool_)
            seen[in_view] = True
            has_keys &= seen
        counted = counted_nodes(pod, nodes, constraints, has_keys)
        self._namespace: Final = pod.namespace
        self._has_keys: Final = has_keys
        self._domains: Final = [
            _Domains(constraint, pod, nodes, which)
            for constraint, which in zip(constraints, counted, strict=True)
        ]
        counts = PodCounts(snapshot, pod.namespace)
        verdicts = [
            domains.count(counts.of(constraint))
            for domains, constraint in zip(self._domains, constraints, strict=True)
        ]
        self._verdicts: Final = _first_of(verdicts)
        self._deltas: IntArray | None = None
        #: The constraints that count a pod of some kind; shared by all copies of this state.
        self._matching: dict[PodKind, tuple[int, ...]] = {}

    def clone(self) -> HardSpread:
        """A copy with deltas of its own."""
        copy = object.__new__(HardSpread)
        for name in HardSpread.__slots__:
            object.__setattr__(copy, name, getattr(self, name))
        if self._deltas is not None:
            copy._deltas = self._deltas.copy()
        return copy

    def change(self, other: PodInfo, row: int, by: int) -> None:
        """A pod more, or less, on a node. Terminating pods count here, as they do upstream."""
        if other.namespace != self._namespace or not self._has_keys[row]:
            return
        kind = other.kind
        matching = self._matching.get(kind)
        if matching is None:
            matching = self._matching[kind] = tuple(
                index
                for index, domains in enumerate(self._domains)
                if domains.selector.matches(kind.labels)
            )
        for index in matching:
            if self._domains[index].counted[row]:
                if self._deltas is None:
                    shape = (len(self._domains), len(self._has_keys))
                    self._deltas = np.zeros(shape, dtype=np.int64)
                self._deltas[index, row] += by

    def counts(self, row: int) -> list[dict[str | None, int]]:
        """The pods in each domain, in the world of the node at this row. For tests."""
        found = []
        for index, domains in enumerate(self._domains):
            counts = domains.by_domain.copy()
            if self._deltas is not None:
                counts[domains.codes[row]] += self._deltas[index, row]
            values = domains.column.values
            codes = domains.codes_counted.tolist()
            found.append({values[code]: int(counts[code]) for code in codes})
        return found

    def rejections(self, rows: IntArray) -> Rejections | None:
        """The verdicts on the nodes at these rows; None if all pass."""
        if self._deltas is None:
            codes = self._verdicts.take(rows)
        else:
            deltas = self._deltas
            codes = _first_of(
                [
                    domains.verdicts(rows, deltas[index].take(rows))
                    for index, domains in enumerate(self._domains)
                ]
            )
        return Rejections(codes, _STATUSES) if codes.max(initial=ABSENT) >= 0 else None


def _first_of(verdicts: Sequence[NDArray[np.int16]]) -> NDArray[np.int16]:
    """On each node the verdict of the first constraint that turns it down."""
    first = verdicts[0]
    for others in verdicts[1:]:
        first = np.where(first < 0, others, first)
    return first
