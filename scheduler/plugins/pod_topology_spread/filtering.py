"""Count matching pods per topology domain, and filter all nodes at once.

A domain is a value of a topology key; a node's domain is its code in the label's column.

    code of each node ---+
    pods on each node ---+--> pods in each domain --> least count --> status code of each node
    nodes that count ----+

In a dry run one state serves many worlds. In the world of node i only the pods on node i differ. So
differences are stored by row, and only the status of node i is recomputed: only the count of its
own domain differs, and the least count of all other domains is one of the two lowest.
Mirrors `podtopologyspread/filtering.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from scheduler.framework.interface import Remedy
from scheduler.framework.status import Rejections, unresolvable, unschedulable
from scheduler.plugins.pod_topology_spread.constraints import MatchingPods
from scheduler.snapshot.columns import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from scheduler.api.core import Taint
    from scheduler.api.tolerations import Tolerates
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

_HOSTNAME: Final = "kubernetes.io/hostname"

#: The least count without any domain (`math.MaxInt32`).
_NO_DOMAIN: Final = 2**31 - 1


class PodCounts:
    """Matching pods per node, cached by selector for one cycle."""

    def __init__(self, snapshot: Snapshot, namespace: str) -> None:
        self._snapshot: Final = snapshot
        self._namespace: Final = namespace
        self._by_rule: Final[dict[MatchingPods, IntArray]] = {}

    def of(self, constraint: SpreadConstraint) -> IntArray:
        """Return the matching pods on each node of the snapshot."""
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
    """Return the nodes that have all topology keys."""
    present = np.ones(len(nodes), dtype=np.bool_)
    for key in dict.fromkeys(constraint.topology_key for constraint in constraints):
        present &= nodes.labels(key).present
    return present


def counted_nodes(
    pod: PodInfo,
    nodes: Nodes,
    constraints: Sequence[SpreadConstraint],
    candidates: BoolArray,
    tolerates: Tolerates,
) -> list[BoolArray]:
    """Return, per constraint, the candidates that meet its policies: only their pods count.

    Mirrors `matchNodeInclusionPolicies`. The arrays may be shared and must not be written to.
    """
    affinity, tolerations = pod.required_node_affinity, pod.spec.tolerations

    def are_tolerated(taints: Sequence[Taint] | None) -> bool:
        return find_untolerated_taint(taints or (), tolerations, HARD_EFFECTS, tolerates) is None

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
    """Return the sum over the counted nodes in each of `size` domains, by code."""
    if np.count_nonzero(counted) != len(counted):
        codes, counts = codes[counted], counts[counted]
    return np.bincount(codes, weights=counts, minlength=size).astype(np.int64)


class _CriticalPaths(NamedTuple):
    """The domain with the least count, that count, and the least count of all other domains."""

    code: int
    least: int
    least_of_others: int


class _Domains:
    """One hard constraint: the pods in each domain, and the limit of a domain.

    A node without the topology key is rejected for this reason, whatever the counts.
    """

    def __init__(
        self,
        constraint: SpreadConstraint,
        pod: PodInfo,
        column: Codes[str],
        counts: IntArray,
        counted: BoolArray,
    ) -> None:
        """`counts` are the matching pods per node; only domains of `counted` nodes exist."""
        self._constraint: Final = constraint
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
        #: Largest difference between a domain's count and the least count.
        self._margin: Final = constraint.max_skew - int(constraint.selector.matches(pod.labels))
        #: True if there are fewer domains than `min_domains`: the least count is 0 then. A cluster
        #: without domains needs no such rule: all its counts are 0 and exceed no limit.
        self._has_too_few: Final = (
            constraint.min_domains > 1 and len(self.codes_counted) < constraint.min_domains
        )
        #: Status code of each node of the snapshot.
        self.status_codes: Final = self._status_codes(self._codes, by_node, self._least)

    @functools.cached_property
    def codes_counted(self) -> IntArray:
        """The codes of all domains."""
        nodes = np.bincount(self._codes[self.counted], minlength=self._size)
        return np.flatnonzero(nodes)

    def remedy(self, row: int) -> Remedy | None:
        """Return the change after which the constraint allows a node; None if it does."""
        key, max_skew = self._constraint.topology_key, self._constraint.max_skew
        value, code = self.column[row], int(self._codes[row])
        if value is None:
            text = f"label {key}"
            return Remedy(text, 1.0, f"do not spread over {key}", text)
        least, number = (0 if self._has_too_few else self._least), int(self.by_domain[code])
        too_many = number - least - self._margin
        if too_many <= 0:
            return None
        limit = f"maxSkew {max_skew}"
        if self._has_too_few:
            domains = len(self.codes_counted)
            limit = f"minDomains {self._constraint.min_domains} of {domains}"
        return Remedy(
            f"{key}={value} has {number:,} matching pods, minimum {least:,}: {limit}",
            too_many / (too_many + 1),
            f"maxSkew {max_skew + too_many} over {key}",
            f"move {too_many:,} of the {number:,} matching pods out of {key}={value}",
            f"spread over {key}" if key == _HOSTNAME else "",
        )

    def status_codes_after(self, rows: IntArray, deltas: IntArray) -> NDArray[np.int16]:
        """Return the status codes of the nodes in these rows, each with `deltas` more pods."""
        counts = self.counts_after(rows, deltas)
        return self._status_codes(self._codes.take(rows), counts, self.least_after(rows, deltas))

    def counts_after(self, rows: IntArray, deltas: IntArray) -> IntArray:
        """Return the pods in the domains of these nodes; arbitrary for a node without a domain."""
        return self.by_domain.take(self._codes.take(rows), mode="wrap") + deltas

    def least_after(self, rows: IntArray, deltas: IntArray) -> IntArray | int:
        """Return the least count of all domains in each of these worlds."""
        changed = deltas != 0
        if not changed.any():
            return self._least
        # Only counted nodes have deltas, so their domains exist.
        critical = self._critical_paths
        is_lowest = self._codes.take(rows) == critical.code
        of_others = np.where(is_lowest, critical.least_of_others, critical.least)
        least = np.minimum(self.counts_after(rows, deltas), of_others)
        return np.where(changed, least, self._least)

    @functools.cached_property
    def _critical_paths(self) -> _CriticalPaths:
        codes = self.codes_counted
        counts = self.by_domain[codes]
        lowest = int(counts.argmin())
        others = np.delete(counts, lowest).min(initial=_NO_DOMAIN)
        return _CriticalPaths(int(codes[lowest]), int(counts[lowest]), int(others))

    def _status_codes(
        self, codes: NDArray[np.int32], counts: IntArray, least: IntArray | int
    ) -> NDArray[np.int16]:
        limit = self._margin if self._has_too_few else least + self._margin
        status_codes = np.where(counts > limit, np.int16(_TOO_SKEWED), np.int16(ABSENT))
        lacking = codes < 0
        if np.count_nonzero(lacking):
            status_codes[lacking] = _MISSING_LABEL
        return status_codes


class PreFilterState:
    """Matching pods per domain for each hard constraint of a pod; upstream's `preFilterState`."""

    __slots__ = ("_deltas", "_domains", "_matching", "_namespace", "_status_codes", "_total")

    def __init__(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: Sequence[SpreadConstraint],
        tolerates: Tolerates,
    ) -> None:
        """Count the pods on all nodes of the snapshot, also on nodes outside of a placement."""
        nodes = snapshot.nodes
        candidates = all_keys_present(nodes, constraints)
        counts = PodCounts(snapshot, pod.namespace)
        counted = counted_nodes(pod, nodes, constraints, candidates, tolerates)
        self._namespace: Final = pod.namespace
        self._total: Final = len(nodes)
        self._domains: Final = [
            _Domains(c, pod, nodes.labels(c.topology_key), counts.of(c), which)
            for c, which in zip(constraints, counted, strict=True)
        ]
        self._status_codes: Final = _first_of([domains.status_codes for domains in self._domains])
        #: Pods that a dry run has added, by constraint and row; None before it.
        self._deltas: IntArray | None = None
        #: Indices of the constraints that match a pod kind; shared by all copies of this state.
        self._matching: dict[PodKind, tuple[int, ...]] = {}

    def clone(self) -> PreFilterState:
        copy = object.__new__(PreFilterState)
        for name in PreFilterState.__slots__:
            object.__setattr__(copy, name, getattr(self, name))
        if self._deltas is not None:
            copy._deltas = self._deltas.copy()
        return copy

    def change(self, other: PodInfo, row: int, by: int) -> None:
        """Add (1) or remove (-1) a pod on a node. Terminating pods count here, as upstream."""
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

    def remedies(self, row: int) -> list[Remedy]:
        """Return the changes after which all constraints allow the node in this row."""
        remedies = (domains.remedy(row) for domains in self._domains)
        return [remedy for remedy in remedies if remedy is not None]

    def rejections(self, rows: IntArray) -> Rejections | None:
        """Return the rejections of the nodes in these rows; None if all pass."""
        if self._deltas is None:
            codes = self._status_codes.take(rows)
        else:
            codes = _first_of(
                [
                    domains.status_codes_after(rows, self._deltas_of(index, rows))
                    for index, domains in enumerate(self._domains)
                ]
            )
        return Rejections(codes, _STATUSES) if codes.max(initial=ABSENT) >= 0 else None

    def _deltas_of(self, index: int, rows: IntArray) -> IntArray:
        if self._deltas is None:
            return np.zeros(len(rows), dtype=np.int64)
        deltas: IntArray = self._deltas[index]
        return deltas.take(rows)


def _first_of(status_codes: Sequence[NDArray[np.int16]]) -> NDArray[np.int16]:
    """Return, for each node, the status code of the first constraint that rejects it."""
    first = status_codes[0]
    for others in status_codes[1:]:
        first = np.where(first < 0, others, first)
    return first
