"""Path elements and sets of fields, with examples and with Hypothesis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeapi.apply import paths, sets
from fakeapi.apply.sets import FieldSet
from fakeapi.apply.types import ATOMIC, UNTYPED, built_in, structural

_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"s"', "v:1"])
_PATHS = st.lists(st.lists(_ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


def set_of(members: list[tuple[str, ...]]) -> FieldSet:
    result: FieldSet = {}
    for path in members:
        result = sets.union(result, sets.of_path(path))
    return result


@given(_PATHS, _PATHS)
def test_operations_are_those_of_sets_of_paths(
    left: list[tuple[str, ...]], right: list[tuple[str, ...]]
) -> None:
    one, other = set_of(left), set_of(right)
    assert set(sets.members(sets.union(one, other))) == set(left) | set(right)
    assert set(sets.members(sets.intersection(one, other))) == set(left) & set(right)
    assert set(sets.members(sets.difference(one, other))) == set(left) - set(right)
    kept = {
        path
        for path in left
        if not any(path[:length] in set(right) for length in range(1, len(path) + 1))
    }
    assert set(sets.members(sets.recursive_difference(one, other))) == kept


@given(_PATHS)
def test_the_wire_form_is_the_set_itself(members: list[tuple[str, ...]]) -> None:
    fields = set_of(members)
    assert sets.parse(sets.canonical(fields)) == fields
    assert sets.canonical(set_of(members[::-1])) is sets.canonical(fields)
    assert all(sets.contains(fields, path) for path in members)


@pytest.mark.parametrize(
    ("written", "element"),
    [
        ("f:a b", "f:a b"),
        ('k:{"b":1,"a":"x"}', 'k:{"a":"x","b":1}'),
        ('v: "<a>"', 'v:"\\u003ca\\u003e"'),
        ("v:1.0", "v:1"),
        ("i:3", "i:3"),
        ("x:unknown", None),
    ],
)
def test_an_element_is_written_in_one_way(written: str, element: str | None) -> None:
    assert paths.canonical(written) == element


@pytest.mark.parametrize("broken", ["f", "", "nothing", "k:[1]", "v:{", "i:x"])
def test_an_invalid_element_is_refused(broken: str) -> None:
    with pytest.raises(paths.PathError):
        paths.canonical(broken)


def test_elements_are_ordered_by_kind_and_value() -> None:
    wanted = ["f:a", "f:b", 'k:{"port":9}', 'k:{"port":80}', "v:2", "v:10", 'v:"a"', "i:1", "i:10"]
    assert sorted(set(wanted), key=paths.order) == wanted


def test_paths_are_shown_as_messages_have_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"c"}', "f:args", 'v:"x"', "i:2")
    assert paths.shown(path) == '.spec.containers[name="c"].args[="x"][2]'


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        ("core/v1.PodSpec", "containers", (False, ("name",))),
        ("core/v1.PodSpec", "tolerations", (True, ())),
        ("core/v1.Container", "ports", (False, ("containerPort", "protocol"))),
        ("core/v1.Container", "args", (True, ())),
        ("meta/v1.ObjectMeta", "finalizers", (False, ())),
        ("meta/v1.ObjectMeta", "ownerReferences", (False, ("uid",))),
        ("core/v1.NodeStatus", "images", (True, ())),
        ("core/v1.PodStatus", "conditions", (False, ("type",))),
    ],
)
def test_lists_merge_by_their_types(
    kind: str, field: str, expected: tuple[bool, tuple[str, ...]]
) -> None:
    declared = built_in(kind).map
    assert declared is not None
    found = declared.fields[field].list
    assert found is not None
    assert (found.is_atomic, found.keys) == expected


@pytest.mark.parametrize(
    ("kind", "field", "is_atomic"),
    [
        ("core/v1.PodSpec", "nodeSelector", True),
        ("core/v1.ServiceSpec", "selector", True),
        ("apps/v1.DeploymentSpec", "selector", True),
        ("core/v1.PersistentVolumeSpec", "claimRef", False),
        ("meta/v1.ObjectMeta", "labels", False),
        ("core/v1.PodSpec", "securityContext", False),
    ],
)
def test_maps_and_structs_merge_by_their_types(kind: str, field: str, is_atomic: bool) -> None:
    declared = built_in(kind).map
    assert declared is not None
    found = declared.fields[field].map
    assert found is not None
    assert found.is_atomic is is_atomic


def test_the_type_of_metadata_does_not_depend_on_the_schema() -> None:
    made = structural({"type": "object", "properties": {"metadata": {"type": "string"}}})
    assert made.map is not None
    assert made.map.fields["metadata"] is built_in("meta/v1.ObjectMeta")
    assert made.map.type_of("spec") is None
    assert structural({}).map is not None
    assert UNTYPED.map is not None
    assert UNTYPED.map.type_of("anything") is UNTYPED
    assert ATOMIC.map is not None
    assert ATOMIC.map.is_atomic
