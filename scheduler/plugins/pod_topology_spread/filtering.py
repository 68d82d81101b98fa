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
from scheduler.plugins.pod_topology_spread.constraints import MatchingPods
from scheduler.snapshot.columns import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from scheduler.api.core import Taint
    from scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
    from scheduler.snapshot.columns import BoolArray, Codes, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind
    from scheduler.snapshot.snapshot import Snapshot

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


class _Extremes(NamedTuple):
    """The domain with the least count, that count, and the least count of all other domains."""

    code: int
    least: int
    least_of_others: int


class _Domains:
    """One hard constraint: the pods in each domain, and how many a node's may have at most.

    A node without the key has no domain, and that is its verdict, whatever the counts are.
    """

    def __init__(
        self,
        constraint: SpreadConstraint,
        pod: PodInfo,
        column: Codes[str],
        counts: IntArray,
        counted: BoolArray,
    ) -> None:
        """`counts` are the matching pods on each node; only nodes `counted` make domains."""
        self.selector: Final = constraint.selector
        self.counted: Final = counted
        self.column: Final = column
        self._codes: Final = column.codes
        self._size: Final = max(len(column.values), 1)
        #: The pods in each domain, by code.
        self.by_domain: Final = sum_by_domain(self._codes, counts, counted, self._size)
        by_node = self.by_domain.take(self._codes, mode="wrap")
        is_any_counted = bool(np.count_nonzero(counted))
        of_counted = by_node if counted.all() else by_node[counted]
        self._least: Final = int(of_counted.min()) if is_any_counted else _NO_DOMAIN
        #: How much a domain's count may exceed the least one.
        self._margin: Final = constraint.max_skew - int(constraint.selector.matches(pod.labels))
        #: Then the least count is taken for 0. Where one domain is enough and there is none, every
        #: count is 0, which is not too much whatever the least is.
        self._has_too_few: Final = (
            constraint.min_domains > 1 and len(self.codes_counted) < constraint.min_domains
        )
        #: The verdict on each node of the snapshot, as it is.
        self.verdicts: Final = self._verdicts(self._codes, by_node, self._least)

    @property
    def codes_counted(self) -> IntArray:
        """The domains that there are, by code."""
        nodes = np.bincount(self._codes[self.counted], minlength=self._size)
        return np.flatnonzero(nodes)

    def verdicts_after(self, rows: IntArray, deltas: IntArray) -> NDArray[np.int16]:
        """The verdict on the nodes at these rows, each with so many more pods, in its own world."""
        counts = self.counts_after(rows, deltas)
        return self._verdicts(self._codes.take(rows), counts, self.least_after(rows, deltas))

    def counts_after(self, rows: IntArray, deltas: IntArray) -> IntArray:
        """The pods in these nodes' own domains; arbitrary for a node without one."""
        return self.by_domain.take(self._codes.take(rows), mode="wrap") + deltas

    def least_after(self, rows: IntArray, deltas: IntArray) -> IntArray | int:
        """The least count of all domains in each of these worlds."""
        changed = deltas != 0
        if not changed.any():
            return self._least
        # Only nodes that count have deltas, so their domains are among those counted.
        extremes = self._extremes
        is_lowest = self._codes.take(rows) == extremes.code
        of_others = np.where(is_lowest, extremes.least_of_others, extremes.least)
        least = np.minimum(self.counts_after(rows, deltas), of_others)
        return np.where(changed, least, self._least)

    @functools.cached_property
    def _extremes(self) -> _Extremes:
        codes = self.codes_counted
        counts = self.by_domain[codes]
        lowest = int(counts.argmin())
        others = np.delete(counts, lowest).min(initial=_NO_DOMAIN)
        return _Extremes(int(codes[lowest]), int(counts[lowest]), int(others))

    def _verdicts(
        self, codes: NDArray[np.int32], counts: IntArray, least: IntArray | int
    ) -> NDArray[np.int16]:
        limit = self._margin if self._has_too_few else least + self._margin
        verdicts = np.where(counts > limit, np.int16(_TOO_SKEWED), np.int16(ABSENT))
        lacking = codes < 0
        if np.count_nonzero(lacking):
            verdicts[lacking] = _MISSING_LABEL
        return verdicts


class HardSpread:
    """What PreFilter has found out about a pod with hard constraints."""

    __slots__ = ("_deltas", "_domains", "_matching", "_namespace", "_total", "_verdicts")

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: Sequence[SpreadConstraint],
        in_view: IntArray | None,
    ) -> None:
        """Count over the snapshot, or over the rows in view only."""
        nodes = snapshot.nodes
        candidates = all_keys_present(nodes, constraints)
        if in_view is not None:
            seen = np.zeros(len(nodes), dtype=np.bool_)
            seen[in_view] = True
            candidates &= seen
        counts = PodCounts(snapshot, pod.namespace)
        counted = counted_nodes(pod, nodes, constraints, candidates)
        self._namespace: Final = pod.namespace
        self._total: Final = len(nodes)
        self._domains: Final = [
            _Domains(c, pod, nodes.labels(c.topology_key), counts.of(c), which)
            for c, which in zip(constraints, counted, strict=True)
        ]
        self._verdicts: Final = _first_of([domains.verdicts for domains in self._domains])
        #: How many pods a dry run has put on each node, by constraint and row; None before it.
        self._deltas: IntArray | None = None
        #: The constraints that count a pod of some kind; shared by all copies of this state.
        self._matching: dict[PodKind, tuple[int, ...]] = {}

    def clone(self) -> HardSpread:
        copy = object.__new__(HardSpread)
        for name in HardSpread.__slots__:
            object.__setattr__(copy, name, getattr(self, name))
        if self._deltas is not None:
            copy._deltas = self._deltas.copy()
        return copy

    def change(self, other: PodInfo, row: int, by: int) -> None:
        """A pod more, or less, on a node. Terminating pods count here, as they do upstream."""
        if other.namespace != self._namespace:
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
                    self._deltas = np.zeros((len(self._domains), self._total), dtype=np.int64)
                self._deltas[index, row] += by

    def rejections(self, rows: IntArray) -> Rejections | None:
        """The verdicts on the nodes at these rows; None if all pass."""
        if self._deltas is None:
            codes = self._verdicts.take(rows)
        else:
            codes = _first_of(
                [
                    domains.verdicts_after(rows, self._deltas_of(index, rows))
                    for index, domains in enumerate(self._domains)
                ]
            )
        return Rejections(codes, _STATUSES) if codes.max(initial=ABSENT) >= 0 else None

    def _deltas_of(self, index: int, rows: IntArray) -> IntArray:
        if self._deltas is None:
            return np.zeros(len(rows), dtype=np.int64)
        deltas: IntArray = self._deltas[index]
        return deltas.take(rows)

    def seen_from(self, row: int | None) -> list[tuple[dict[str | None, int], int]]:
        """For each constraint the pods in each domain, and the least of all domains, in the world
        of the node at this row, or as it is. For tests.
        """
        rows = np.array([] if row is None else [row], dtype=np.int64)
        found = []
        for index, domains in enumerate(self._domains):
            deltas = self._deltas_of(index, rows)
            counts = domains.by_domain.copy()
            counts[domains.column.codes[rows]] += deltas
            values, codes = domains.column.values, domains.codes_counted.tolist()
            least = int(np.min(domains.least_after(rows, deltas)))
            found.append(({values[code]: int(counts[code]) for code in codes}, least))
        return found


def _first_of(verdicts: Sequence[NDArray[np.int16]]) -> NDArray[np.int16]:
    """On each node the verdict of the first constraint that turns it down."""
    first = verdicts[0]
    for others in verdicts[1:]:
        first = np.where(first < 0, others, first)
    return first
