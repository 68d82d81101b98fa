"""Which nodes can reach volumes and storage pools, and which of several a node reaches first.

A volume names its nodes by node affinity, a storage class by allowed topologies, a storage pool by
a label selector; all become `NodeTerms`. A cluster with local disks has as many volumes as nodes,
each reachable from one node; matching each volume with each node would take quadratic time. So
volumes that require one of some values of one label are indexed by value, and each node looks up
its own value; all others are matched one by one, those with equal terms once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api import field
from scheduler.api.core import Node, ObjectMeta
from scheduler.api.field import FieldErrors
from scheduler.api.node_selectors import parse_node_selector
from scheduler.api.selectors import NOTHING, Requirement, SelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.api.core import LabelSelector, NodeSelector
    from scheduler.api.node_selectors import NodeSelectorMatcher
    from scheduler.api.storage import TopologySelectorTerm, VolumeNodeAffinity
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes


def reach_of_affinity(affinity: VolumeNodeAffinity | None) -> Alternatives:
    """The nodes that a volume's affinity selects; malformed terms select none."""
    if affinity is None or affinity.required is None:
        return EVERYWHERE
    return _reach_of_node_selector(affinity.required)


def affinity_mismatch(affinity: VolumeNodeAffinity | None, labels: Mapping[str, str]) -> str:
    """What keeps a volume from a node with these labels, in upstream's words; empty if nothing.

    Source: `CheckNodeAffinity`.
    """
    if affinity is None or affinity.required is None:
        return ""
    matcher = _parsed(affinity.required)
    if matcher.matches(Node(metadata=ObjectMeta(labels=labels))):
        return ""
    return field.aggregate(matcher.errors) if matcher.errors else "no matching NodeSelectorTerms"


def reach_of_topologies(terms: Iterable[TopologySelectorTerm]) -> Alternatives:
    """The nodes that a class allows: all if it says nothing. Source: `MatchTopologySelectorTerms`.

    Empty and malformed terms allow none.
    """
    terms = tuple(terms)
    if not terms:
        return EVERYWHERE
    alternatives = []
    for term in terms:
        try:
            requirements = tuple(
                Requirement.parse(expression.key, "In", expression.values)
                for expression in term.match_label_expressions
            )
        except FieldErrors:
            continue
        if requirements:
            alternatives.append(requirements)
    return tuple(alternatives)


def reach_of_selector(selector: LabelSelector | None) -> Alternatives:
    """The nodes that a storage pool serves; none if it does not say, or says it badly."""
    try:
        parsed = parse_label_selector(selector)
    except (FieldErrors, SelectorError):
        return NOWHERE
    return NOWHERE if parsed is NOTHING else (parsed.requirements,)


@functools.lru_cache(maxsize=16384)
def _reach_of_node_selector(selector: NodeSelector) -> Alternatives:
    """Volumes know nothing of a node but its labels: its name reads as empty."""
    return tuple(
        term.expressions
        for term in _parsed(selector).terms
        if not term.errors and all(requirement.accepts("") for requirement in term.fields)
    )


@functools.lru_cache(maxsize=16384)
def _parsed(selector: NodeSelector) -> NodeSelectorMatcher:
    return parse_node_selector(selector)


#: Conditions on a node's labels: one of these must hold, which is to say all requirements in it.
Alternatives = tuple[tuple[Requirement, ...], ...]

EVERYWHERE: Final[Alternatives] = ((),)
NOWHERE: Final[Alternatives] = ()


def nodes_meeting(alternatives: Alternatives, nodes: Nodes) -> BoolArray:
    """Which nodes meet one of the alternatives."""
    met = np.zeros(len(nodes), dtype=np.bool_)
    for requirements in alternatives:
        if not requirements:
            return np.ones(len(nodes), dtype=np.bool_)
        all_met = nodes.accepted_by(requirements[0])
        for requirement in requirements[1:]:
            all_met = all_met & nodes.accepted_by(requirement)
        met |= all_met
    return met


class NodeRanking:
    """Things in order of preference, the first having rank 0, and from where they can be reached.

    `nothing` is the rank of no thing at all: one more than the last.
    """

    def __init__(self, reach: Sequence[Alternatives]) -> None:
        self.nothing: Final = len(reach)
        self._everywhere: Final[list[int]] = []
        self._by_value: Final[dict[str, dict[str | None, list[int]]]] = {}
        self._others: Final[dict[object, tuple[Alternatives, list[int]]]] = {}
        self._tables: Final[dict[tuple[str, int], tuple[Sequence[str | None], IntArray]]] = {}
        for rank, alternatives in enumerate(reach):
            self._add(rank, alternatives)

    def _add(self, rank: int, alternatives: Alternatives) -> None:
        if () in alternatives:
            self._everywhere.append(rank)
            return
        if len(alternatives) == 1 and len(alternatives[0]) == 1:
            requirement = alternatives[0][0]
            if requirement.operator == "In":
                ranks_by_value = self._by_value.setdefault(requirement.key, {})
                for value in dict.fromkeys(requirement.values):
                    ranks_by_value.setdefault(value, []).append(rank)
                return
        key = tuple(tuple((r.key, r.operator, r.values) for r in term) for term in alternatives)
        self._others.setdefault(key, (alternatives, []))[1].append(rank)

    def best(self, nodes: Nodes, taken: Sequence[IntArray] = ()) -> IntArray:
        """The lowest rank within each node's reach, `nothing` where there is none.

        `taken` are ranks that each node cannot have: an array over the nodes for every one of them.
        """
        best = np.full(len(nodes), self.nothing, dtype=np.int64)
        for level in self._groups(nodes):
            np.minimum(best, self._lowest_free(level, taken), out=best)
        return best

    def _groups(self, nodes: Nodes) -> list[Callable[[int], IntArray]]:
        groups: list[Callable[[int], IntArray]] = []
        if self._everywhere:
            everywhere = np.ones(len(nodes), dtype=np.bool_)
            groups.append(self._level_of_group(everywhere, self._everywhere))
        groups += [self._level_by_value(nodes, key) for key in self._by_value]
        for alternatives, ranks in self._others.values():
            groups.append(self._level_of_group(nodes_meeting(alternatives, nodes), ranks))
        return groups

    def _level_of_group(self, reach: BoolArray, ranks: Sequence[int]) -> Callable[[int], IntArray]:
        def level(depth: int) -> IntArray:
            return np.where(
                reach, ranks[depth] if depth < len(ranks) else self.nothing, self.nothing
            )

        return level

    def _level_by_value(self, nodes: Nodes, key: str) -> Callable[[int], IntArray]:
        values = nodes.labels(key)

        def level(depth: int) -> IntArray:
            return self._ranks_by_code(key, depth, values.values).take(values.codes, mode="wrap")

        return level

    def _ranks_by_code(self, key: str, depth: int, values: Sequence[str | None]) -> IntArray:
        """The so-many-th rank of each value of a label, by its code, and of its absence.

        Kept, as a cycle asks about the same nodes in blocks; a column that has changed asks with
        another list of values, or a longer one.
        """
        known, table = self._tables.get((key, depth), ((), None))
        if table is None or known is not values or len(table) != len(values) + 1:
            ranks_by_value = self._by_value[key]
            ranks = [ranks_by_value.get(value, ()) for value in (*values, None)]
            table = np.array([r[depth] if depth < len(r) else self.nothing for r in ranks])
            self._tables[key, depth] = values, table
        return table

    def _lowest_free(self, level: Callable[[int], IntArray], taken: Sequence[IntArray]) -> IntArray:
        """The lowest rank of a group that is not taken. Ends, for `nothing` never is."""
        ranks, depth = level(0), 0
        clash = self._is_taken(ranks, taken)
        while clash.any():
            depth += 1
            ranks = np.where(clash, level(depth), ranks)
            clash &= self._is_taken(ranks, taken)
        return ranks

    def _is_taken(self, ranks: IntArray, taken: Sequence[IntArray]) -> BoolArray:
        clash = np.zeros(len(ranks), dtype=np.bool_)
        for others in taken:
            clash |= ranks == others
        clash &= ranks != self.nothing
        return clash
