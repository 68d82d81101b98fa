"""Decoding by the table of types: what Go's decoder and encoder would make of an object."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types import schema
from fakeapi.types.schema import DecodeError, decode, unknown_fields
from tests.thoroughness import examples


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: f"{kind.group}/{kind.plural}")
def test_every_kind_has_a_type(kind: Any) -> None:
    assert "metadata" in schema.fields_of(kind.schema)
    assert decode(kind.schema, {"metadata": {"name": "x"}})["metadata"] == {"name": "x"}


def test_a_json_schema_may_be_given_in_short() -> None:
    given = {
        "additionalProperties": True,
        "items": {"type": "string", "bogus": 1},
        "properties": {"a": {"additionalProperties": {"type": "string", "bogus": 2}}},
    }
    dropped: list[str] = []
    decoded = decode("apiextensions/v1.JSONSchemaProps", given, dropped)
    assert dropped == ["bogus", "bogus"]
    assert decoded == {
        "additionalProperties": True,
        "items": {"type": "string"},
        "properties": {"a": {"additionalProperties": {"type": "string"}}},
    }
    assert unknown_fields("apiextensions/v1.JSONSchemaProps", given) == [
        "items.bogus",
        "properties.a.additionalProperties.bogus",
    ]


def test_the_schema_names_the_atomic_types_and_fields() -> None:
    assert "core/v1.NodeSelector" in schema.atomic_types()
    assert schema.fields_of("core/v1.PodSpec")["nodeSelector"].map_type == "atomic"
    assert schema.fields_of("core/v1.PersistentVolumeSpec")["claimRef"].map_type == "granular"
    containers = schema.fields_of("core/v1.PodSpec")["containers"]
    assert (containers.list_type, containers.list_map_keys) == ("map", ("name",))


def test_every_type_refers_only_to_types_there_are() -> None:
    for kind in BUILT_IN:
        pending, seen = [kind.schema], set()
        while pending:
            name = pending.pop()
            for field in schema.fields_of(name).values():
                bare = field.type.replace("[]", "").replace("{}", "")
                schema.converter(field.type)
                if "/" in bare and bare not in seen:
                    seen.add(bare)
                    pending.append(bare)


@pytest.mark.parametrize(
    ("type_name", "value", "decoded"),
    [
        # omitempty: empty values of optional fields vanish, pointers do not
        ("core/v1.Toleration", {"key": "", "tolerationSeconds": 0}, {"tolerationSeconds": 0}),
        ("core/v1.PodSecurityContext", {"runAsUser": 0, "sysctls": []}, {"runAsUser": 0}),
        # fields without omitempty show their zero
        ("core/v1.Taint", {}, {"key": "", "effect": ""}),
        (
            "core/v1.PodCondition",
            {"type": "A", "status": "True"},
            {"type": "A", "status": "True", "lastProbeTime": None, "lastTransitionTime": None},
        ),
        # structs that are no pointers are always there
        ("core/v1.Container", {"name": "c"}, {"name": "c", "resources": {}}),
        # null is absence
        ("meta/v1.ObjectMeta", {"name": "a", "labels": None}, {"name": "a"}),
        ("core/v1.NodeSelector", {"nodeSelectorTerms": [None]}, {"nodeSelectorTerms": [{}]}),
        # declared defaults
        (
            "core/v1.ContainerPort",
            {"containerPort": 80},
            {"containerPort": 80, "protocol": "TCP"},
        ),
        ("resource/v1.DeviceToleration", {}, {"operator": "Equal"}),
        # canonical forms
        ("core/v1.ResourceRequirements", {"limits": {"cpu": 1.5}}, {"limits": {"cpu": "1500m"}}),
        (
            "meta/v1.ObjectMeta",
            {"creationTimestamp": "2026-01-01T01:00:00.5+01:00"},
            {"creationTimestamp": "2026-01-01T00:00:00Z"},
        ),
        ("policy/v1.PodDisruptionBudgetSpec", {"minAvailable": "50%"}, {"minAvailable": "50%"}),
    ],
)
def test_values_of_every_type_are_decoded_as_declared(
    type_name: str, value: dict[str, Any], decoded: dict[str, Any]
) -> None:
    assert decode(type_name, value) == decoded


def test_unknown_fields_are_dropped_and_named() -> None:
    value = {"a": 1, "spec": {"containers": [{"name": "c", "b": {}}], "c": None}}
    dropped: list[str] = []
    decoded = decode("core/v1.Pod", value, dropped)
    assert sorted(dropped) == ["a", "b", "c"]
    assert decoded["spec"] == {"containers": [{"name": "c", "resources": {}}]}
    assert unknown_fields("core/v1.Pod", value) == ["a", "spec.containers[0].b", "spec.c"]


def test_maps_keep_any_key() -> None:
    labels = {"a/b": "c", "spec": "d"}
    assert decode("meta/v1.ObjectMeta", {"labels": labels}) == {"labels": labels}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            {"spec": {"hostNetwork": "yes"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork "
            "of type bool",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels "
            "of type string",
        ),
        (
            {"metadata": {"labels": []}},
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels "
            "of type map[string]string",
        ),
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers "
            "of type []v1.Container",
        ),
        (
            {"spec": {"priority": 2**31}},
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority "
            "of type int32",
        ),
        (
            {"spec": {"overhead": {"cpu": "lots"}}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" '
            'as "2006"',
        ),
        (
            {"metadata": {"creationTimestamp": "0001-01-01T00:00:00+10:00"}},
            'parsing time "0001-01-01T00:00:00+10:00": out of range for layout '
            '"2006-01-02T15:04:05Z07:00"',
        ),
    ],
)
def test_wrong_types_are_reported_as_go_does(value: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode("core/v1.Pod", value)
    assert str(caught.value) == message


def test_secret_data_must_be_base64() -> None:
    assert decode("core/v1.Secret", {"data": {"a": "YQ=="}})["data"] == {"a": "YQ=="}
    with pytest.raises(DecodeError, match="illegal base64"):
        decode("core/v1.Secret", {"data": {"a": "%%"}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1, 1) | st.text("ab1"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "containers", "labels", "spec", "metadata", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=examples(25))
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values, max_size=3))
def test_decoding_anything_is_stable_or_refused(value: dict[str, Any]) -> None:
    with contextlib.suppress(DecodeError):
        once = decode("core/v1.Pod", value)
        assert decode("core/v1.Pod", once) == once
