"""NodeAffinity."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.framework import Code, CycleState, Status
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, build, hint, rejected, scores

Json = dict[str, object]

MISMATCH = (UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",))
ENFORCED = (UNRESOLVABLE, ("node(s) didn't match scheduler-enforced node affinity",))
CONFLICT = (UNRESOLVABLE, ("pod affinity terms conflict",))
LEFT_OUT = (UNRESOLVABLE, ())

FOO_BAR: Json = {"key": "foo", "operator": "In", "values": ["bar"]}
MALFORMED: Json = {**FOO_BAR, "operator": "Has"}


def gen(operator: str) -> Json:
    return {"key": "gen", "operator": operator, "values": ["5"]}


def names(*values: str, operator: str = "In") -> Json:
    return {"key": "metadata.name", "operator": operator, "values": list(values)}


def required(*terms: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(**weights: int) -> Json:
    """Preferences for labels, as in `foo_bar=2` for foo=bar with weight 2."""
    terms = []
    for label, weight in weights.items():
        key, value = label.split("_")
        expression = {"key": key, "operator": "In", "values": [value]}
        terms.append({"weight": weight, "preference": {"matchExpressions": [expression]}})
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def pod(node_affinity: Json | None = None, **node_selector: str) -> Pod:
    affinity = {"nodeAffinity": node_affinity} if node_affinity else None
    return make_pod(affinity=affinity, node_selector=node_selector)


SNAPSHOT = snapshot_of(
    [
        make_node("bar", labels={"foo": "bar", "gen": "3"}),
        make_node("baz", labels={"foo": "baz", "gen": "7"}),
        make_node("none"),
    ]
)


@pytest.mark.parametrize(
    ("wanting", "fitting"),
    [
        pytest.param(pod(foo="bar"), {"bar"}, id="selector"),
        pytest.param(pod(foo="bar", gen="7"), set(), id="all of the selector"),
        pytest.param(pod(required({"matchExpressions": [FOO_BAR]})), {"bar"}, id="In"),
        pytest.param(
            pod(required({"matchExpressions": [{**FOO_BAR, "operator": "NotIn"}]})),
            {"baz", "none"},
            id="NotIn matches nodes without the label",
        ),
        pytest.param(
            pod(required({"matchExpressions": [{"key": "foo", "operator": "Exists"}]})),
            {"bar", "baz"},
            id="Exists",
        ),
        pytest.param(
            pod(required({"matchExpressions": [{"key": "foo", "operator": "DoesNotExist"}]})),
            {"none"},
            id="DoesNotExist",
        ),
        pytest.param(
            pod(required({"matchExpressions": [gen("Gt")]})),
            {"baz"},
            id="Gt",
        ),
        pytest.param(
            pod(required({"matchExpressions": [gen("Lt")]})),
            {"bar"},
            id="Lt",
        ),
        pytest.param(
            pod(required({"matchExpressions": [FOO_BAR]}, {"matchFields": [names("none")]})),
            {"bar", "none"},
            id="either term",
        ),
        pytest.param(pod(required({})), set(), id="an empty term"),
        pytest.param(pod(required()), set(), id="no terms"),
        pytest.param(
            pod(required({"matchFields": [names("bar", operator="NotIn")]})),
            {"baz", "none"},
            id="not by name",
        ),
        pytest.param(pod(required({"matchExpressions": [FOO_BAR]}), gen="7"), set(), id="both"),
        pytest.param(
            pod(required({"matchExpressions": [MALFORMED]})),
            set(),
            id="a malformed term",
        ),
        pytest.param(
            pod(required({"matchExpressions": [MALFORMED]}, {"matchExpressions": [FOO_BAR]})),
            {"bar"},
            id="a malformed term beside a good one",
        ),
    ],
)
def test_a_node_must_meet_selector_and_affinity(wanting: Pod, fitting: set[str]) -> None:
    """`TestNodeAffinity`."""
    expected = dict.fromkeys({"bar", "baz", "none"} - fitting, MISMATCH)
    assert rejected(build(NodeAffinity), wanting, SNAPSHOT) == expected


def test_names_in_all_terms_narrow_the_search() -> None:
    by_name = pod(required({"matchFields": [names("bar")]}, {"matchFields": [names("none")]}))
    assert rejected(build(NodeAffinity), by_name, SNAPSHOT) == {"baz": LEFT_OUT}


def test_a_named_node_must_meet_the_rest_as_well() -> None:
    by_name = pod(required({"matchFields": [names("baz")], "matchExpressions": [FOO_BAR]}))
    expected = {"bar": LEFT_OUT, "baz": MISMATCH, "none": LEFT_OUT}
    assert rejected(build(NodeAffinity), by_name, SNAPSHOT) == expected


def test_names_that_exclude_one_another_are_a_conflict() -> None:
    conflicting = pod(required({"matchFields": [names("bar"), names("baz")]}))
    found = rejected(build(NodeAffinity), conflicting, SNAPSHOT)
    assert set(found.values()) == {CONFLICT}


def test_a_pod_without_wishes_is_skipped() -> None:
    status = build(NodeAffinity).pre_filter(CycleState(), PodInfo(pod()), SNAPSHOT.nodes)
    assert isinstance(status, Status)
    assert status.code == Code.SKIP


def test_added_affinity_is_for_every_pod_and_comes_first() -> None:
    plugin = build(NodeAffinity, {"addedAffinity": required({"matchExpressions": [FOO_BAR]})})
    assert rejected(plugin, pod(), SNAPSHOT) == {"baz": ENFORCED, "none": ENFORCED}
    found = rejected(plugin, pod(gen="7"), SNAPSHOT)
    assert found == {"bar": MISMATCH, "baz": ENFORCED, "none": ENFORCED}


def test_malformed_added_affinity_is_refused() -> None:
    with pytest.raises(PluginSetupError) as caught:
        build(
            NodeAffinity,
            {"addedAffinity": required({"matchExpressions": [MALFORMED]})},
        )
    assert str(caught.value) == (
        'initializing plugin "NodeAffinity": addedAffinity.'
        "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]."
        'operator: Unsupported value: "Has": supported values: "In", "NotIn", "Exists", '
        '"DoesNotExist", "Gt", "Lt"'
    )


LABELLED = snapshot_of(
    [
        make_node("node1", labels={"foo": "bar"}),
        make_node("node2", labels={"key": "value"}),
        make_node("node3", labels={"foo": "bar", "key": "value", "az": "az1"}),
    ]
)


@pytest.mark.parametrize(
    ("wanting", "added", "expected"),
    [
        (pod(preferred(foo_bar=2)), None, [100, 0, 100]),
        (pod(preferred(abc_az11=2)), None, [0, 0, 0]),
        (pod(preferred(foo_bar=2, key_value=4, az_az1=5)), None, [18, 36, 100]),
        (pod(preferred(foo_bar=0, key_value=1)), None, [0, 100, 100]),
        (pod(), preferred(foo_bar=2), [100, 0, 100]),
        (pod(preferred(foo_bar=2)), preferred(key_value=3), [40, 60, 100]),
        (pod(), None, []),
    ],
)
def test_nodes_that_meet_weightier_preferences_score_higher(
    wanting: Pod, added: Json | None, expected: list[int]
) -> None:
    """`TestNodeAffinityPriority`."""
    plugin = build(NodeAffinity, {"addedAffinity": added})
    assert list(scores(plugin, wanting, LABELLED).values()) == expected


def test_preferences_count_without_pre_score_too() -> None:
    wanting = PodInfo(pod(preferred(foo_bar=2)))
    found = build(NodeAffinity).score_nodes(CycleState(), wanting, LABELLED.nodes)
    assert found.tolist() == [2, 0, 2]


def test_malformed_preferences_are_an_error() -> None:
    expression = {"key": "invalid key", "operator": "In", "values": ["bar"]}
    term = {"weight": 2, "preference": {"matchExpressions": [expression]}}
    wanting = pod({"preferredDuringSchedulingIgnoredDuringExecution": [term]})
    with pytest.raises(ValueError) as caught:
        build(NodeAffinity).pre_score(CycleState(), PodInfo(wanting), LABELLED.nodes)
    assert str(caught.value) == (
        '[0].matchExpressions[0].key: Invalid value: "invalid key": name part must consist of '
        "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )


FOO = make_node(labels={"foo": "bar"})
BARE = make_node()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, BARE, SKIP),
        (None, FOO, QUEUE),
        (BARE, make_node(labels={"k": "v"}), SKIP),
        (FOO, make_node(labels={"k": "v"}), SKIP),
        (BARE, FOO, QUEUE),
        (FOO, make_node(labels={"foo": "bar", "k": "v"}), SKIP),
    ],
)
@pytest.mark.parametrize("added", [None, required({"matchExpressions": [FOO_BAR]})])
def test_a_node_that_now_matches_may_help(
    old: Node | None, new: Node, expected: str, added: Json | None
) -> None:
    """`Test_isSchedulableAfterNodeChange`."""
    plugin = build(NodeAffinity, {"addedAffinity": added})
    wanting = pod(required({"matchExpressions": [FOO_BAR]}))
    assert hint(plugin, wanting, old=old, new=new) == expected


def test_a_node_that_added_affinity_keeps_out_does_not_help() -> None:
    plugin = build(NodeAffinity, {"addedAffinity": required({"matchExpressions": [FOO_BAR]})})
    assert hint(plugin, pod(k="v"), new=make_node(labels={"k": "v"})) == SKIP


def test_a_hint_does_not_judge_by_a_malformed_term() -> None:
    malformed = pod(required({"matchExpressions": [MALFORMED]}))
    with pytest.raises(ValueError, match=r"nodeSelectorTerms\[0\].matchExpressions\[0\].operator"):
        hint(build(NodeAffinity), malformed, new=FOO)
