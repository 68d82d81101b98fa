"""Node selectors and node affinity: the nodes that a pod's spec allows.

Terms are ORed, the requirements of a term are ANDed, an empty term matches no node. An invalid term
matches no node either, and its errors are reported only if no other term matches.
Source: component-helpers `scheduling/corev1/nodeaffinity/nodeaffinity.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.api import field
from scheduler.api.field import FieldError, FieldErrors
from scheduler.api.selectors import Requirement, selector_from_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.api.core import (
        Node,
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        PodSpec,
        PreferredSchedulingTerm,
    )

#: The only node field for selectors.
METADATA_NAME: Final = "metadata.name"

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")


class Term:
    """A parsed term: requirements on labels and on fields, or their errors."""

    __slots__ = ("errors", "expressions", "fields")

    def __init__(self, term: NodeSelectorTerm, path: str) -> None:
        self.errors: list[FieldError] = []
        dot = f"{path}." if path else ""
        self.expressions: Final = self._parse(
            term.match_expressions, f"{dot}matchExpressions", _parse_expression
        )
        self.fields: Final = self._parse(term.match_fields, f"{dot}matchFields", _parse_field)

    def _parse(
        self,
        requirements: Sequence[NodeSelectorRequirement],
        path: str,
        parse: _ParseRequirement,
    ) -> tuple[Requirement, ...]:
        parsed = []
        for index, requirement in enumerate(requirements):
            try:
                parsed.append(parse(requirement, f"{path}[{index}]"))
            except FieldErrors as malformed:
                self.errors += malformed.errors
        return tuple(parsed)

    def matches(self, node: Node) -> bool:
        """Return True if the node meets the term."""
        if self.errors:
            return False
        labels = node.metadata.labels
        return all(expression.matches(labels) for expression in self.expressions) and all(
            requirement.accepts(field_value(requirement.key, node)) for requirement in self.fields
        )


def field_value(key: str, node: Node) -> str:
    """Return a node's field by its selector key; empty for unknown keys, as upstream."""
    return node.metadata.name if key == METADATA_NAME else ""


class NodeSelectorMatcher:
    """A parsed `NodeSelector`, which matches if one of its terms does."""

    __slots__ = ("terms",)

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms: Final = tuple(terms)

    def matches(self, node: Node) -> bool:
        """Return True if the node is selected."""
        return any(term.matches(node) for term in self.terms)

    @property
    def errors(self) -> list[FieldError]:
        """The errors of all terms."""
        return [error for term in self.terms for error in term.errors]


class RequiredNodeAffinity:
    """A pod's `nodeSelector` and required node affinity together."""

    __slots__ = ("node_selector", "terms")

    def __init__(self, spec: PodSpec) -> None:
        self.node_selector: Final = (
            selector_from_set(spec.node_selector) if spec.node_selector else None
        )
        affinity = spec.affinity.node_affinity if spec.affinity else None
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        self.terms: Final = parse_node_selector(required) if required else None

    @property
    def is_empty(self) -> bool:
        """True if the pod has neither."""
        return self.node_selector is None and self.terms is None

    def matches(self, node: Node) -> bool:
        """Return True if the pod may run on the node."""
        if self.node_selector is not None and not self.node_selector.matches(node.metadata.labels):
            return False
        return self.terms is None or self.terms.matches(node)


#: Parsed preferred terms with their weights.
PreferredTerms: TypeAlias = tuple[tuple[int, Term], ...]


def parse_node_selector(selector: NodeSelector, *, path: str = "") -> NodeSelectorMatcher:
    """Parse a selector; `NodeSelectorMatcher.errors` has the errors of its terms."""
    dot = f"{path}." if path else ""
    return NodeSelectorMatcher(
        Term(term, f"{dot}nodeSelectorTerms[{index}]")
        for index, term in enumerate(selector.node_selector_terms)
        if not _is_empty(term)
    )


def parse_preferred_terms(
    terms: Sequence[PreferredSchedulingTerm], *, path: str = ""
) -> PreferredTerms:
    """Parse preferred terms; empty terms and terms without a weight are left out.

    Raises FieldErrors if a term is invalid.
    """
    parsed = [
        (term.weight, Term(term.preference, f"{path}[{index}]"))
        for index, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    ]
    if errors := [error for _, term in parsed for error in term.errors]:
        raise FieldErrors(errors)
    return tuple(parsed)


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _parse_expression(requirement: NodeSelectorRequirement, path: str) -> Requirement:
    if requirement.operator not in _OPERATORS:
        raise FieldErrors(
            [field.not_supported(f"{path}.operator", requirement.operator, _OPERATORS)]
        )
    return Requirement.parse(requirement.key, requirement.operator, requirement.values, path=path)


def _parse_field(requirement: NodeSelectorRequirement, path: str) -> Requirement:
    if requirement.operator not in _FIELD_OPERATORS:
        raise FieldErrors(
            [field.not_supported(f"{path}.operator", requirement.operator, _FIELD_OPERATORS)]
        )
    if len(requirement.values) != 1:
        values = requirement.values or None
        raise FieldErrors([field.invalid(f"{path}.values", values, "must have one element")])
    return Requirement(requirement.key, requirement.operator, requirement.values)


if TYPE_CHECKING:
    from collections.abc import Callable

    _ParseRequirement = Callable[[NodeSelectorRequirement, str], Requirement]
