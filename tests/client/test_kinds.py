"""URLs, queries and the little that an object needs to be sent."""

import json

import pytest

from scheduler.api.core import Node, ObjectMeta, ObjectReference
from scheduler.client.kinds import (
    DEVICE_TAINT_RULES,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    ListOptions,
    object_key,
    read_as,
)
from scheduler.config import SchedulerVersion
from tests.client.objects import pod


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.collection_path(), "/api/v1/pods"),
        (PODS.collection_path("ns"), "/api/v1/namespaces/ns/pods"),
        (NODES.collection_path(), "/api/v1/nodes"),
        (NODES.collection_path("ignored"), "/api/v1/nodes"),
        (EVENTS.collection_path("ns"), "/apis/events.k8s.io/v1/namespaces/ns/events"),
        (PODS.path("p", namespace="ns"), "/api/v1/namespaces/ns/pods/p"),
        (
            PODS.path("p", namespace="ns", subresource="binding"),
            "/api/v1/namespaces/ns/pods/p/binding",
        ),
        (NODES.path("n.example.com"), "/api/v1/nodes/n.example.com"),
        (NODES.path("a b?"), "/api/v1/nodes/a%20b%3F"),
    ],
)
def test_paths_are_those_of_the_api(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_change_the_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a path"):
        NODES.path(name)


def test_one_object_of_a_namespaced_kind_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="a namespace is needed"):
        PODS.path("p")


@pytest.mark.parametrize(
    ("options", "watch", "expected"),
    [
        (ListOptions(), False, ""),
        (ListOptions(limit=500, resource_version="0"), False, "limit=500&resourceVersion=0"),
        (
            ListOptions(field_selector="status.phase!=Succeeded,status.phase!=Failed"),
            False,
            "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
        ),
        (
            ListOptions(
                resource_version_match="NotOlderThan",
                send_initial_events=True,
                allow_watch_bookmarks=True,
                timeout_seconds=590,
            ),
            True,
            "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
            "&timeoutSeconds=590&watch=true",
        ),
        (ListOptions(send_initial_events=False), True, "sendInitialEvents=false&watch=true"),
        (ListOptions(continue_token="a+b/c="), False, "continue=a%2Bb%2Fc%3D"),
        (ListOptions(label_selector="a in (b,c)"), False, "labelSelector=a%20in%20%28b%2Cc%29"),
    ],
)
def test_options_become_a_query(options: ListOptions, watch: bool, expected: str) -> None:
    assert options.query(watch=watch) == expected


def test_encoded_objects_have_kind_and_version() -> None:
    assert json.loads(NODES.encode(Node())) == {"kind": "Node", "apiVersion": "v1"}
    assert json.loads(NODES.encode(Node(metadata=ObjectMeta(name="n")))) == {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n"},
    }


def test_a_reference_points_at_exactly_this_state_of_an_object() -> None:
    assert PODS.reference(pod("p", "7")) == ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace="default",
        name="p",
        uid="uid-p",
        resource_version="7",
    )


def test_kinds_with_a_group_name_it_in_messages() -> None:
    assert (PODS.group_resource, LEASES.group_resource) == ("pods", "leases.coordination.k8s.io")


def test_a_key_is_namespace_and_name() -> None:
    assert object_key(pod("p", namespace="ns")) == "ns/p"
    assert object_key(Node(metadata=ObjectMeta(name="n"))) == "n"


@pytest.mark.parametrize(
    ("version", "expected"),
    [*zip(SchedulerVersion, ("v1alpha3", "v1alpha3", "v1beta2", "v1"), strict=True)],
)
def test_rules_of_taints_are_read_in_the_api_of_the_version(
    version: SchedulerVersion, expected: str
) -> None:
    assert read_as(DEVICE_TAINT_RULES, version).version == expected
