"""Cluster events: labels, matching (upstream's `TestCloudEvent_Match`), hints and kinds."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.framework import events
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.testing import make_node, make_pod

R, A = EventResource, ActionType


def test_the_numbers_are_upstreams() -> None:
    bits = [action for action in A if action.value.bit_count() == 1]
    assert [action.value for action in bits] == [1 << n for n in range(15)]
    assert A.ALL == 2**15 - 1
    assert A.UPDATE == A.ALL & ~(A.ADD | A.DELETE)


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (A.ADD, "Add"),
        (A.DELETE, "Delete"),
        (A.UPDATE, "Update"),
        (A.ALL, "All"),
        (A.UPDATE_NODE_ALLOCATABLE, "UpdateNodeAllocatable"),
        (A.UPDATE_NODE_DECLARED_FEATURE, "UpdateNodeDeclaredFeature"),
        (A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "UpdatePodSchedulingGatesEliminated"),
        (A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, "UpdatePodGeneratedResourceClaim"),
        (A.NONE, ""),
        (A.ADD | A.DELETE, ""),
    ],
)
def test_actions_have_the_names_of_upstream(action: ActionType, word: str) -> None:
    assert str(action) == word


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (events.EVENT_ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (events.DEFAULT_POD_EVENTS.event(A.UPDATE), "UnschedulablePodUpdate"),
        (ClusterEvent(R.NODE, A.UPDATE_NODE_LABEL), "NodeUpdateNodeLabel"),
        (ClusterEvent(R.CSI_NODE, A.ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent("foos.v1.example.com", A.UPDATE), "foos.v1.example.comUpdate"),
        (events.EVENT_UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (events.EVENT_FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_events_are_labelled_by_resource_and_action(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def test_only_all_actions_on_all_resources_are_a_wildcard() -> None:
    assert events.EVENT_UNSCHEDULABLE_TIMEOUT.is_wildcard
    assert not ClusterEvent(R.WILDCARD, A.UPDATE).is_wildcard
    assert not ClusterEvent(R.NODE, A.ALL).is_wildcard


def test_a_plugin_that_names_no_events_is_registered_for_every_kind_without_a_wildcard() -> None:
    assert [hint.event.resource for hint in events.ALL_EVENTS] == [
        "Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver", "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass", "resource.k8s.io/ResourceClaim",
        "resource.k8s.io/DeviceClass",
    ]  # fmt: skip
    assert {hint.event.action_type for hint in events.ALL_EVENTS} == {A.ALL}
    assert all(hint.queueing_hint_fn is None for hint in events.ALL_EVENTS)


def test_hints_have_the_names_of_upstream() -> None:
    assert [str(hint) for hint in QueueingHint] == ["QueueSkip", "Queue"]


def test_a_hint_gets_objects_of_the_expected_type() -> None:
    pod, node = make_pod(), make_node()
    assert as_kind(Pod, None, pod) == (None, pod)
    assert as_kind(Pod, pod, None) == (pod, None)
    assert as_kind(Node, node, node) == (node, node)


@pytest.mark.parametrize(("old", "new"), [(make_pod(), None), (None, make_pod()), (3, None)])
def test_a_hint_refuses_objects_of_another_kind(old: object, new: object) -> None:
    with pytest.raises(TypeError, match=r"^expected Node, but got (Pod|int)$"):
        as_kind(Node, old, new)
