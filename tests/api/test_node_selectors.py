"""Node selectors and node affinity: upstream's `nodeaffinity_test.go` tables."""

import pytest

from scheduler.api import field
from scheduler.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.api.field import FieldErrors
from scheduler.api.node_selectors import (
    RequiredNodeAffinity,
    parse_node_selector,
    parse_preferred_terms,
)
from scheduler.testing import make_node, make_pod

NODE = make_node("node-1", labels={"zone": "a", "cores": "16"})

Expression = tuple[str, str, tuple[str, ...]]


def _term(*expressions: Expression, fields: tuple[Expression, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(NodeSelectorRequirement(*e) for e in expressions),
        match_fields=tuple(NodeSelectorRequirement(*e) for e in fields),
    )


IN_ZONE_A = ("zone", "In", ("a",))
IN_ZONE_B = ("zone", "In", ("b",))
NAMED = ("metadata.name", "In", ("node-1",))
NAMED_OTHERWISE = ("metadata.name", "In", ("node-2",))
BROKEN = ("-zone-", "In", ("a",))


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ((), False),
        ((_term(),), False),
        ((_term(), _term(IN_ZONE_A)), True),
        ((_term(IN_ZONE_A),), True),
        ((_term(IN_ZONE_B),), False),
        ((_term(IN_ZONE_B), _term(IN_ZONE_A)), True),
        ((_term(IN_ZONE_A, ("cores", "Gt", ("8",))),), True),
        ((_term(IN_ZONE_A, ("cores", "Lt", ("8",))),), False),
        ((_term(fields=(NAMED,)),), True),
        ((_term(fields=(NAMED_OTHERWISE,)),), False),
        ((_term(fields=(("metadata.name", "NotIn", ("node-2",)),)),), True),
        ((_term(fields=(("metadata.name", "NotIn", ("node-1",)),)),), False),
        ((_term(fields=(NAMED, NAMED_OTHERWISE)),), False),
        ((_term(IN_ZONE_A, fields=(NAMED,)),), True),
        ((_term(IN_ZONE_B, fields=(NAMED,)),), False),
        ((_term(IN_ZONE_A, fields=(NAMED_OTHERWISE,)),), False),
        ((_term(IN_ZONE_B), _term(fields=(NAMED,))), True),
        # A field that there is not reads as empty.
        ((_term(fields=(("metadata.uid", "In", ("",)),)),), True),
        ((_term(fields=(("metadata.uid", "NotIn", ("",)),)),), False),
        # A term that cannot be parsed matches nowhere, and does not spoil the others.
        ((_term(BROKEN),), False),
        ((_term(IN_ZONE_A, BROKEN),), False),
        ((_term(BROKEN), _term(IN_ZONE_A)), True),
    ],
)
def test_one_term_must_match_and_all_that_is_in_it(
    terms: tuple[NodeSelectorTerm, ...], *, matches: bool
) -> None:
    assert parse_node_selector(NodeSelector(terms)).matches(NODE) is matches


@pytest.mark.parametrize(
    ("term", "errors"),
    [
        (_term(IN_ZONE_A, fields=(NAMED,)), []),
        (
            _term(("zone", "Near", ("a",))),
            [
                'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": '
                'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
            ],
        ),
        (
            _term(IN_ZONE_A, ("zone", "In", ()), ("cores", "Gt", ("x",))),
            [
                "nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: null: "
                "for 'in', 'notin' operators, values set can't be empty",
                'nodeSelectorTerms[0].matchExpressions[2].values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ],
        ),
        (
            _term(fields=(("metadata.name", "Exists", ()),)),
            [
                'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": '
                'supported values: "In", "NotIn"'
            ],
        ),
        (
            _term(
                fields=(
                    ("metadata.name", "In", ("a", "b")),
                    ("metadata.name", "In", ()),
                )
            ),
            [
                'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: '
                "must have one element",
                "nodeSelectorTerms[0].matchFields[1].values: Invalid value: null: "
                "must have one element",
            ],
        ),
    ],
)
def test_invalid_terms_have_errors(term: NodeSelectorTerm, errors: list[str]) -> None:
    matcher = parse_node_selector(NodeSelector((term,)))
    assert [str(error) for error in matcher.errors] == errors


def test_errors_keep_the_index_of_their_term_and_stand_below_a_path() -> None:
    selector = NodeSelector((_term(), _term(IN_ZONE_A), _term(("zone", "Near", ()))))
    [error] = parse_node_selector(selector, path="spec.required").errors
    assert error.path == "spec.required.nodeSelectorTerms[2].matchExpressions[0].operator"


def test_a_pod_without_node_constraints_may_run_anywhere() -> None:
    affinity = RequiredNodeAffinity(make_pod().spec)
    assert affinity.is_empty
    assert affinity.matches(NODE)


@pytest.mark.parametrize(
    ("node_selector", "terms", "matches"),
    [
        ({"zone": "a"}, None, True),
        ({"zone": "b"}, None, False),
        # Nothing is checked in a nodeSelector: it just selects nothing.
        ({"-zone-": "a"}, None, False),
        ({}, (_term(IN_ZONE_A),), True),
        ({}, (), False),
        ({"zone": "a"}, (_term(IN_ZONE_A),), True),
        ({"zone": "b"}, (_term(IN_ZONE_A),), False),
        ({"zone": "a"}, (_term(IN_ZONE_B),), False),
    ],
)
def test_node_selector_and_required_affinity_must_both_hold(
    node_selector: dict[str, str], terms: tuple[NodeSelectorTerm, ...] | None, *, matches: bool
) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = None if terms is None else {"nodeAffinity": {required: NodeSelector(terms)}}
    pod = make_pod(node_selector=node_selector, affinity=affinity)
    parsed = RequiredNodeAffinity(pod.spec)
    assert not parsed.is_empty
    assert parsed.matches(NODE) is matches


def test_preferred_terms_have_their_weights() -> None:
    terms = parse_preferred_terms(
        [
            PreferredSchedulingTerm(5, _term(IN_ZONE_A)),
            PreferredSchedulingTerm(7, _term(IN_ZONE_B)),
            PreferredSchedulingTerm(11, _term(fields=(NAMED,))),
            PreferredSchedulingTerm(-2, _term(IN_ZONE_A)),
        ]
    )
    assert [weight for weight, term in terms if term.matches(NODE)] == [5, 11, -2]
    other = make_node("node-2", labels={"zone": "b"})
    assert [weight for weight, term in terms if term.matches(other)] == [7]


def test_preferred_terms_without_weight_or_content_are_not_even_parsed() -> None:
    terms = parse_preferred_terms(
        [PreferredSchedulingTerm(0, _term(BROKEN)), PreferredSchedulingTerm(5, _term())]
    )
    assert terms == ()


def test_malformed_preferred_terms_are_refused_together() -> None:
    with pytest.raises(FieldErrors) as refusal:
        parse_preferred_terms(
            [
                PreferredSchedulingTerm(1, _term(("zone", "In", ()))),
                PreferredSchedulingTerm(1, _term(IN_ZONE_A)),
                PreferredSchedulingTerm(1, _term(fields=(("metadata.name", "Gt", ("1",)),))),
            ]
        )
    assert [error.path for error in refusal.value.errors] == [
        "[0].matchExpressions[0].values",
        "[2].matchFields[0].operator",
    ]
    assert str(refusal.value) == field.aggregate(refusal.value.errors)
