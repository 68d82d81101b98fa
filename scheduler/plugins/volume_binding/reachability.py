"""Find the nodes that can reach a volume or storage pool, and the first of several per node.

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


#: ORed terms of ANDed requirements on the labels of a node, as in a node selector.
NodeTerms = tuple[tuple[Requirement, ...], ...]

ALL_NODES: Final[NodeTerms] = ((),)
NO_NODES: Final[NodeTerms] = ()


def terms_from_affinity(affinity: VolumeNodeAffinity | None) -> NodeTerms:
    """Return the terms of a volume's affinity, without the malformed ones, which match no node."""
    if affinity is None or affinity.required is None:
        return ALL_NODES
    return _terms_from_node_selector(affinity.required)


def affinity_mismatch(affinity: VolumeNodeAffinity | None, labels: Mapping[str, str]) -> str:
    """Return upstream's error text if the affinity does not match the labels, else an empty string.

    Source: `CheckNodeAffinity`.
    """
    if affinity is None or affinity.required is None:
        return ""
    matcher = _parsed(affinity.required)
    if matcher.matches(Node(metadata=ObjectMeta(labels=labels))):
        return ""
    return field.aggregate(matcher.errors) if matcher.errors else "no matching NodeSelectorTerms"


def terms_from_topologies(terms: Iterable[TopologySelectorTerm]) -> NodeTerms:
    """Return the terms of a class's allowed topologies: without any, all nodes match.

    Empty and malformed terms match no node. Source: `MatchTopologySelectorTerms`.
    """
    terms = tuple(terms)
    if not terms:
        return ALL_NODES
    parsed = []
    for term in terms:
        try:
            requirements = tuple(
                Requirement.parse(expression.key, "In", expression.values)
                for expression in term.match_label_expressions
            )
        except FieldErrors:
            continue
        if requirements:
            parsed.append(requirements)
    return tuple(parsed)


def terms_from_selector(selector: LabelSelector | None) -> NodeTerms:
    """Return the terms of a storage pool; no node matches a missing or malformed selector."""
    try:
        parsed = parse_label_selector(selector)
    except (FieldErrors, SelectorError):
        return NO_NODES
    return NO_NODES if parsed is NOTHING else (parsed.requirements,)


@functools.lru_cache(maxsize=16384)
def _terms_from_node_selector(selector: NodeSelector) -> NodeTerms:
    """Return the terms on labels. Volumes are matched without the node's name, which is empty."""
    return tuple(
        term.expressions
        for term in _parsed(selector).terms
        if not term.errors and all(requirement.accepts("") for requirement in term.fields)
    )


@functools.lru_cache(maxsize=16384)
def _parsed(selector: NodeSelector) -> NodeSelectorMatcher:
    return parse_node_selector(selector)


def matching_nodes(terms: NodeTerms, nodes: Nodes) -> BoolArray:
    """Return the nodes that match one of the terms."""
    met = np.zeros(len(nodes), dtype=np.bool_)
    for requirements in terms:
        if not requirements:
            return np.ones(len(nodes), dtype=np.bool_)
        all_met = nodes.accepted_by(requirements[0])
        for requirement in requirements[1:]:
            all_met = all_met & nodes.accepted_by(requirement)
        met |= all_met
    return met


class FirstReachable:
    """Items in order of preference, of which each node gets the first it can reach.

    Items (volumes or storage pools) are numbered by rank, from 0; `nothing` stands for no item.
    """

    def __init__(self, reach: Sequence[NodeTerms]) -> None:
        self.nothing: Final = len(reach)
        self._everywhere: Final[list[int]] = []
        self._by_value: Final[dict[str, dict[str | None, list[int]]]] = {}
        self._others: Final[dict[object, tuple[NodeTerms, list[int]]]] = {}
        self._tables: Final[dict[tuple[str, int], tuple[Sequence[str | None], IntArray]]] = {}
        for rank, terms in enumerate(reach):
            self._add(rank, terms)

    def _add(self, rank: int, terms: NodeTerms) -> None:
        if () in terms:
            self._everywhere.append(rank)
            return
        if len(terms) == 1 and len(terms[0]) == 1:
            requirement = terms[0][0]
            if requirement.operator == "In":
                ranks_by_value = self._by_value.setdefault(requirement.key, {})
                for value in dict.fromkeys(requirement.values):
                    ranks_by_value.setdefault(value, []).append(rank)
                return
        key = tuple(tuple((r.key, r.operator, r.values) for r in term) for term in terms)
        self._others.setdefault(key, (terms, []))[1].append(rank)

    def find(self, nodes: Nodes, taken: Sequence[IntArray] = ()) -> IntArray:
        """Return the lowest rank that each node can reach, or `nothing`.

        Each array of `taken` holds a rank per node that is not available to the node.
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
        for terms, ranks in self._others.values():
            groups.append(self._level_of_group(matching_nodes(terms, nodes), ranks))
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
        """Return the `depth`-th rank for each code of a label's values, and for no label.

        Cached, because a cycle calls this for blocks of nodes. A changed column has another list of
        values, or a longer one.
        """
        known, table = self._tables.get((key, depth), ((), None))
        if table is None or known is not values or len(table) != len(values) + 1:
            ranks_by_value = self._by_value[key]
            ranks = [ranks_by_value.get(value, ()) for value in (*values, None)]
            table = np.array([r[depth] if depth < len(r) else self.nothing for r in ranks])
            self._tables[key, depth] = values, table
        return table

    def _lowest_free(self, level: Callable[[int], IntArray], taken: Sequence[IntArray]) -> IntArray:
        """Return the lowest rank of a group that is not taken. `nothing` is never taken."""
        ranks, depth = level(0), 0
        is_taken = self._is_taken(ranks, taken)
        while is_taken.any():
            depth += 1
            ranks = np.where(is_taken, level(depth), ranks)
            is_taken &= self._is_taken(ranks, taken)
        return ranks

    def _is_taken(self, ranks: IntArray, taken: Sequence[IntArray]) -> BoolArray:
        is_taken = np.zeros(len(ranks), dtype=np.bool_)
        for others in taken:
            is_taken |= ranks == others
        is_taken &= ranks != self.nothing
        return is_taken
