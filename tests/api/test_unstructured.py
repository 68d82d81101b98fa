"""Objects of kinds without a type of their own."""

import msgspec
import pytest

from scheduler.api.unstructured import Unstructured


class Spec(msgspec.Struct):
    limits: list[dict[str, int]]


class Quota(msgspec.Struct):
    spec: Spec


MADE = {
    "kind": "Quota",
    "metadata": {"name": "team", "namespace": "a", "creationTimestamp": None},
    "spec": {"limits": [{"pods": 3}], "note": None},
}


def test_an_object_is_delivered_whole_and_converts_to_a_type() -> None:
    quota = Unstructured(MADE)
    assert (quota.metadata.name, quota.metadata.namespace) == ("team", "a")
    assert quota["spec"]["limits"][0]["pods"] == 3
    assert quota["spec"]["note"] is None
    assert (set(quota), len(quota)) == ({"kind", "metadata", "spec"}, 3)
    assert msgspec.convert(quota, Quota).spec.limits == [{"pods": 3}]
    assert repr(quota) == "<Quota a/team>"


def test_an_object_cannot_be_changed() -> None:
    quota = Unstructured(MADE)
    with pytest.raises(TypeError):
        quota["spec"]["limits"][0]["pods"] = 4
    with pytest.raises(TypeError):
        quota["spec"] = {}  # type: ignore[index]
    assert isinstance(quota["spec"]["limits"], tuple)


def test_an_object_without_metadata_has_empty_metadata() -> None:
    assert Unstructured({"kind": "Bookmark"}).metadata.name == ""
    with pytest.raises(msgspec.ValidationError):
        Unstructured({"metadata": {"name": 3}})
