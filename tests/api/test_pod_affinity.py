"""Parsed affinity terms: the pods that they match, and the errors of invalid ones."""

from collections.abc import Mapping

import msgspec
import pytest

from scheduler.api.core import Affinity
from scheduler.api.pod_affinity import NO_TERMS, AffinityTerm, parse_affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}


def affinity(**halves: Mapping[str, object]) -> Affinity:
    return msgspec.convert(halves, Affinity)


def term(*, namespace: str = "own", **parts: object) -> AffinityTerm:
    near = affinity(podAffinity={REQUIRED: [{"topologyKey": "zone", **parts}]})
    return parse_affinity(near, namespace).required_affinity[0]


@pytest.mark.parametrize(
    ("parts", "namespace", "labels", "expected"),
    [
        ({"labelSelector": WEB}, "own", {}, True),
        ({"labelSelector": WEB}, "other", {}, False),
        ({"labelSelector": WEB, "namespaces": ["other"]}, "other", {}, True),
        ({"labelSelector": WEB, "namespaces": ["other"]}, "own", {}, False),
        ({"labelSelector": WEB, "namespaceSelector": {}}, "other", {}, True),
        ({"labelSelector": WEB, "namespaceSelector": WEB}, "other", {"app": "web"}, True),
        ({"labelSelector": WEB, "namespaceSelector": WEB}, "own", {}, False),
        ({"labelSelector": {}}, "own", {}, True),
        ({}, "own", {}, False),
    ],
)
def test_a_term_means_pods_by_namespace_and_labels(
    parts: Mapping[str, object], namespace: str, labels: Mapping[str, str], expected: bool
) -> None:
    assert term(**parts).matches(namespace, {"app": "web"}, labels) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (WEB, {("app", "web")}),
        (
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
            {("app", "web"), ("app", "db")},
        ),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, None),
        ({}, None),
        (None, set()),
    ],
)
def test_a_term_knows_which_labels_it_wants(
    selector: object, expected: set[tuple[str, str]] | None
) -> None:
    wanted = term(labelSelector=selector).wanted_labels
    assert wanted == expected if expected is None else set(wanted or ()) == expected


def test_without_pod_affinity_there_are_no_terms() -> None:
    assert parse_affinity(None, "own") is NO_TERMS
    assert parse_affinity(affinity(nodeAffinity={}), "own") is NO_TERMS


def test_a_malformed_term_empties_its_list_and_no_other() -> None:
    bad = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "-"}}}
    good = {"topologyKey": "zone", "labelSelector": WEB}
    terms = parse_affinity(
        affinity(
            podAffinity={
                REQUIRED: [good, bad],
                PREFERRED: [{"weight": 1, "podAffinityTerm": good}],
            },
            podAntiAffinity={REQUIRED: [good], PREFERRED: [{"weight": 1, "podAffinityTerm": bad}]},
        ),
        "own",
    )
    assert (len(terms.required_affinity), len(terms.preferred_anti_affinity)) == (0, 0)
    assert (len(terms.required_anti_affinity), len(terms.preferred_affinity)) == (1, 1)
    assert list(terms.errors) == ["requiredAffinityTerms", "preferredAntiAffinityTerms"]
    assert terms.message.startswith("[requiredAffinityTerms: values[0][app]: Invalid value: ")
    assert ", preferredAntiAffinityTerms: values[0][app]: Invalid value: " in terms.message
    assert terms.message.endswith("]")


def test_one_error_stands_alone() -> None:
    operator = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    half = {REQUIRED: [{"topologyKey": "zone", "labelSelector": operator}]}
    terms = parse_affinity(affinity(podAffinity=half), "own")
    expected = 'requiredAffinityTerms: "Like" is not a valid label selector operator'
    assert terms.message == expected
    assert NO_TERMS.message == ""
