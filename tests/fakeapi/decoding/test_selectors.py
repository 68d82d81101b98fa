"""Label and field selectors, in lists over HTTP and by themselves."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.decoding.selectors import (
    SelectorError,
    exact_match,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
)
from fakeapi.kinds.built_in import BUILT_IN
from tests.thoroughness import examples

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, NODES, PODS, binding, config_map, pod

LABELS = {
    "plain": {},
    "web": {"app": "web", "tier": "1"},
    "db": {"app": "db", "tier": "20"},
    "empty": {"app": ""},
}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", ["db", "empty", "plain", "web"]),
        ("app", ["db", "empty", "web"]),
        ("!app", ["plain"]),
        ("app=web", ["web"]),
        ("app==web", ["web"]),
        ("app = web", ["web"]),
        ("app!=web", ["db", "empty", "plain"]),
        ("app in (web,db)", ["db", "web"]),
        ("app in (web, )", ["empty", "web"]),
        ("app in (in,notin)", []),
        ("app notin (web,db)", ["empty", "plain"]),
        ("app notin (a,)", ["db", "plain", "web"]),
        ("app=", ["empty"]),
        ("tier>1", ["db"]),
        ("tier<20", ["web"]),
        ("app,tier>0", ["db", "web"]),
        ("app=web,tier=20", []),
    ],
)
async def test_label_selectors_select(api: ApiClient, selector: str, selected: list[str]) -> None:
    for name, labels in LABELS.items():
        await api.create(CONFIG_MAPS, config_map(name, labels=labels))
    assert (await api.get(CONFIG_MAPS, labelSelector=selector)).names == selected


KEY_RULE = "name part must consist of alphanumeric characters, '-', '_' or '.'"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {KEY_RULE}'),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt'"),
        ("a=b@c", 'unable to parse requirement: values[0][a]: Invalid value: "b@c": a valid label'),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
async def test_bad_label_selectors_are_refused_with_upstreams_texts(
    api: ApiClient, selector: str, message: str
) -> None:
    reply = await api.get(CONFIG_MAPS, labelSelector=selector)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith(message)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b", "c"]),
        ("metadata.namespace=default", ["a", "b", "c"]),
        ("metadata.namespace=other", []),
        ("spec.nodeName=n1", ["a"]),
        ("spec.host=n1", ["a"]),
        ("spec.nodeName!=", ["a"]),
        ("spec.nodeName=", ["b", "c"]),
        ("spec.schedulerName=mine", ["b"]),
        ("spec.restartPolicy=Never", ["c"]),
        ("spec.serviceAccountName=robot", ["c"]),
        ("spec.hostNetwork=true", ["b"]),
        ("spec.hostNetwork=false", ["a", "c"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["a", "b"]),
        ("status.podIP=10.0.0.1", ["c"]),
        ("status.nominatedNodeName=n2", ["b"]),
        ("spec.nodeName=,status.phase=Pending", ["b"]),
        ("metadata.name=a,", ["a"]),
    ],
)
async def test_pods_are_selected_by_their_fields(
    api: ApiClient, selector: str, selected: list[str]
) -> None:
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b", spec={"schedulerName": "mine", "hostNetwork": True}))
    await api.create(PODS, pod("c", spec={"restartPolicy": "Never", "serviceAccountName": "robot"}))
    await api.post(f"{PODS}/a/binding", binding("a"))
    await api.patch(f"{PODS}/b/status", {"status": {"nominatedNodeName": "n2"}})
    status = {"phase": "Succeeded", "podIPs": [{"ip": "10.0.0.1"}]}
    await api.patch(f"{PODS}/c/status", {"status": status})
    assert (await api.get(PODS, fieldSelector=selector)).names == selected


async def test_nodes_are_selected_by_being_unschedulable(api: ApiClient) -> None:
    await api.create(NODES, {"metadata": {"name": "a"}, "spec": {"unschedulable": True}})
    await api.create(NODES, {"metadata": {"name": "b"}})
    assert (await api.get(NODES, fieldSelector="spec.unschedulable=true")).names == ["a"]
    assert (await api.get(NODES, fieldSelector="spec.unschedulable=false")).names == ["b"]


@pytest.mark.parametrize(
    ("path", "selector", "message"),
    [
        (PODS, "spec.foo=1", "field label not supported: spec.foo"),
        (NODES, "metadata.namespace=a", "field label not supported: metadata.namespace"),
        (
            CONFIG_MAPS,
            "data.a=1",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (PODS, "xx", "invalid selector: 'xx'; can't understand 'xx'"),
        (PODS, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (PODS, "metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
        (PODS, "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
async def test_bad_field_selectors_are_refused(
    api: ApiClient, path: str, selector: str, message: str
) -> None:
    reply = await api.get(path, fieldSelector=selector)
    assert (reply.code, reply.reason, reply.message) == (400, "BadRequest", message)


def test_escaped_characters_belong_to_the_value() -> None:
    kind = next(kind for kind in BUILT_IN if kind.plural == "configmaps")
    (term,) = parse_field_selector(r"metadata.name=a\,b\=c\\d", kind)
    assert term.values == {r"a,b=c\d"}


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=a", "a"),
        ("status.phase=x,metadata.name==a", "a"),
        (r"metadata.name=a\,b", "a,b"),
        ("metadata.name!=a", ""),
        ("metadata.name=a,b", ""),
        ("ametadata.name=a", ""),
        ("metadata.name=a\n", "a\n"),
    ],
)
def test_the_name_that_a_field_selector_demands(selector: str, name: str) -> None:
    assert exact_match(selector, "metadata.name") == name


class CountedLabels(dict[str, object]):
    """Labels that count how often one is looked up."""

    looked_up = 0

    def get(self, key: str, default: object = None) -> object:
        self.looked_up += 1
        return super().get(key, default)


def test_many_conditions_cost_no_more_than_the_labels_of_an_object() -> None:
    """One for each key that the object lacks would be 20,000 look-ups for each object."""
    absent = ",".join(f"!a{n},b{n}!=x,c notin (y{n}),d>{n}" for n in range(10_000))
    selector = parse_label_selector(absent)
    labels = CountedLabels(c="x", d="10000")
    assert selector.matches(labels)
    assert labels.looked_up == 2
    assert not selector.matches({**labels, "a7": "1"})
    assert not selector.matches({**labels, "b7": "x"})
    assert not selector.matches({**labels, "d": "9999"})


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("a=1,a=2", {"a": "1"}, False),
        ("a in (1,2),a in (2,3)", {"a": "2"}, True),
        ("a!=1,a!=2", {"a": "2"}, False),
        ("a>1,a>10", {"a": "9"}, False),
        ("a<1,a<10", {"a": "0"}, True),
        ("a>1", {"a": "9" * 5000}, False),
        ("a>1", {"a": "x"}, False),
        ("a,!a", {"a": "x"}, False),
    ],
)
def test_conditions_on_one_label_hold_together(
    selector: str, labels: dict[str, object], *, matches: bool
) -> None:
    assert parse_label_selector(selector).matches(labels) is matches


async def test_long_runs_of_signs_are_refused(api: ApiClient) -> None:
    reply = await api.get(CONFIG_MAPS, labelSelector="a" + "=" * 4000)
    assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {"a": "1"}, False),
        ({}, {"a": "1"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {"a": "1"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_label_selectors_of_objects(
    selector: object, labels: dict[str, object], matches: bool
) -> None:
    assert label_selector_of(selector).matches(labels) is matches


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        label_selector_of({"matchExpressions": [{"key": "a", "operator": "Near"}]})


names = st.text("abcxyz", min_size=1, max_size=3)


@settings(max_examples=examples(30))
@given(key=names, values=st.lists(names, min_size=1, max_size=3), value=names)
def test_in_and_notin_are_opposites(key: str, values: list[str], value: str) -> None:
    listed = ",".join(values)
    inside = parse_label_selector(f"{key} in ({listed})")
    outside = parse_label_selector(f"{key} notin ({listed})")
    assert inside.matches({key: value}) is not outside.matches({key: value})
    assert inside.matches({key: value}) is (value in values)
    assert not inside.matches({})
    assert outside.matches({})


@settings(max_examples=examples(30))
@given(st.text("ab=!,()<> in", max_size=12))
def test_any_text_is_a_selector_or_an_error(source: str) -> None:
    with contextlib.suppress(SelectorError):
        parse_label_selector(source).matches({"a": "b"})
