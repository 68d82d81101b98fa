"""From which nodes volumes, classes and storage pools can be reached, as conditions on node labels.

Each of them says it in its own way: a volume by node affinity, a class by allowed topologies, a
storage pool by a label selector. Here they become one thing, `Alternatives`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from scheduler.api import field
from scheduler.api.core import Node, ObjectMeta
from scheduler.api.field import FieldErrors
from scheduler.api.node_selectors import parse_node_selector
from scheduler.api.selectors import NOTHING, Requirement, SelectorError, parse_label_selector
from scheduler.plugins.volume_binding.node_ranking import EVERYWHERE, NOWHERE, Alternatives

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.core import LabelSelector, NodeSelector
    from scheduler.api.node_selectors import NodeSelectorMatcher
    from scheduler.api.storage import TopologySelectorTerm, VolumeNodeAffinity


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
