"""The events that every plugin registers for, and the registrations that a change reaches.

The table is upstream's `EventsToRegister`, v1.36.3, with the default feature gates.
"""

from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.api import core
from scheduler.client.kinds import KINDS
from scheduler.config import DEFAULT_SCHEDULER_VERSION
from scheduler.framework.events import (
    EVENT_ASSIGNED_POD_ADD,
    EVENT_ASSIGNED_POD_DELETE,
    ActionType,
    ClusterEvent,
    EventResource,
    match_cluster_events,
)
from scheduler.framework.interface import EnqueueExtensions, Plugin
from scheduler.plugins import in_tree_plugins
from scheduler.runtime.extension_points import EXTENSION_POINTS, implements
from scheduler.runtime.registry import Registry
from scheduler.testing import FakeHandle, make_node, make_pod
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import events_of

A, R = ActionType, EventResource

#: Resource, actions, and whether there is a hint; without one every such event retries the pod.
Row = tuple[str, ActionType, bool]

HINT, ALWAYS = True, False

IN_TREE = {plugin.name: plugin for plugin in in_tree_plugins(DEFAULT_SCHEDULER_VERSION)}

UPSTREAM: dict[str, list[Row]] = {
    "SchedulingGates": [(R.POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, HINT)],
    "NodeName": [(R.NODE, A.ADD, ALWAYS)],
    "NodeUnschedulable": [
        (R.NODE, A.ADD | A.UPDATE_NODE_TAINT, HINT),
        (R.POD, A.UPDATE_POD_TOLERATION, HINT),
    ],
    "TaintToleration": [
        (R.NODE, A.ADD | A.UPDATE_NODE_TAINT, HINT),
        (R.POD, A.UPDATE_POD_TOLERATION, HINT),
    ],
    "NodeAffinity": [(R.NODE, A.ADD | A.UPDATE_NODE_LABEL, HINT)],
    "NodePorts": [(R.POD, A.DELETE, HINT), (R.NODE, A.ADD, ALWAYS)],
    "NodeResourcesFit": [
        (R.POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN, HINT),
        (R.NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE, HINT),
        (R.DEVICE_CLASS, A.ADD | A.UPDATE, HINT),
    ],
    "VolumeRestrictions": [
        (R.POD, A.DELETE, HINT),
        (R.NODE, A.ADD, ALWAYS),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD, HINT),
    ],
    "NodeVolumeLimits": [
        (R.CSI_NODE, A.ADD, ALWAYS),
        (R.CSI_NODE, A.UPDATE, HINT),
        (R.POD, A.DELETE, HINT),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD, HINT),
        (R.VOLUME_ATTACHMENT, A.DELETE, HINT),
    ],
    "VolumeBinding": [
        (R.STORAGE_CLASS, A.ADD | A.UPDATE, HINT),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD | A.UPDATE, HINT),
        (R.PERSISTENT_VOLUME, A.ADD | A.UPDATE, ALWAYS),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL, ALWAYS),
        (R.CSI_NODE, A.ADD | A.UPDATE, HINT),
        (R.CSI_DRIVER, A.UPDATE, HINT),
        (R.CSI_STORAGE_CAPACITY, A.ADD | A.UPDATE, HINT),
    ],
    "VolumeZone": [
        (R.STORAGE_CLASS, A.ADD, HINT),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL, ALWAYS),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD | A.UPDATE, HINT),
        (R.PERSISTENT_VOLUME, A.ADD | A.UPDATE, HINT),
    ],
    "PodTopologySpread": [
        (R.POD, A.ADD | A.UPDATE_POD_LABEL | A.UPDATE_POD_TOLERATION | A.DELETE, HINT),
        (R.NODE, A.ADD | A.DELETE | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT, HINT),
    ],
    "InterPodAffinity": [
        (R.POD, A.ADD | A.UPDATE_POD_LABEL | A.DELETE, HINT),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL, HINT),
    ],
    "DynamicResources": [
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_ALLOCATABLE, ALWAYS),
        (R.RESOURCE_CLAIM, A.ADD | A.UPDATE, HINT),
        (R.POD, A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, HINT),
        (R.DEVICE_CLASS, A.ADD | A.UPDATE, ALWAYS),
        (R.RESOURCE_SLICE, A.ADD | A.UPDATE, ALWAYS),
    ],
    "DefaultPreemption": [(R.POD, A.DELETE, HINT)],
    "GangScheduling": [(R.POD, A.ADD, HINT), (R.POD_GROUP, A.ADD, HINT)],
    "NodeDeclaredFeatures": [
        (R.NODE, A.ADD | A.UPDATE_NODE_DECLARED_FEATURE, HINT),
        (R.POD, A.UPDATE, HINT),
    ],
}


def build(name: str) -> Plugin:
    handle = FakeHandle(listers={plural: FakeLister() for plural in KINDS})
    return Registry([IN_TREE[name]]).create(name, None, handle)


def rows_of(plugin: Plugin) -> list[Row]:
    registered = cast("EnqueueExtensions", plugin).events_to_register()
    return [(event.resource, event.action_type, hint is not None) for event, hint in registered]


@pytest.mark.parametrize("name", [name for name in UPSTREAM if name in IN_TREE])
def test_a_plugin_registers_for_the_events_that_upstreams_does(name: str) -> None:
    assert sorted(rows_of(build(name))) == sorted(UPSTREAM[name])


@pytest.mark.parametrize("name", sorted(IN_TREE.keys() - UPSTREAM.keys()))
def test_all_other_plugins_never_turn_a_pod_down(name: str) -> None:
    rejecting = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
    points = [point for point in EXTENSION_POINTS if point.field in rejecting]
    assert not [point.field for point in points if implements(IN_TREE[name], point)]


@pytest.mark.parametrize("name", [name for name in UPSTREAM if name in IN_TREE])
def test_the_kinds_of_these_events_are_known(name: str) -> None:
    kinds = {kind.kind for kind in KINDS.values()}
    assert {resource.rpartition("/")[2] for resource, _, _ in rows_of(build(name))} <= kinds


def node_with(**status: object) -> core.Node:
    node = make_node("n")
    return replace(node, status=replace(node.status, **status))


NODE, POD = make_node("n"), make_pod("p")
TAINTED = make_node("n", taints=[{"key": "k", "effect": "NoSchedule"}])
GATED = make_pod("p", scheduling_gates=["g"])
CLAIMED = replace(
    POD, status=core.PodStatus(resource_claim_statuses=(core.PodResourceClaimStatus("c", "x"),))
)
#: The plugins whose hints run when a node is added.
ABOUT_NODES = {
    *("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts"),
    *("NodeResourcesFit", "VolumeRestrictions", "VolumeBinding", "VolumeZone"),
    *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
}


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        (NODE, make_node("n", unschedulable=True), set()),
        (
            make_node("n", unschedulable=True),
            NODE,
            {"NodeUnschedulable", "TaintToleration", "PodTopologySpread"},
        ),
        (NODE, TAINTED, {"NodeUnschedulable", "TaintToleration", "PodTopologySpread"}),
        (
            NODE,
            make_node("n", labels={"a": "b"}),
            {
                *("NodeAffinity", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
                *("InterPodAffinity", "DynamicResources"),
            },
        ),
        (NODE, node_with(allocatable={"cpu": "9"}), {"NodeResourcesFit", "DynamicResources"}),
        (NODE, node_with(conditions=(core.NodeCondition("Ready", "True"),)), set()),
        (NODE, make_node("n", annotations={"a": "b"}), set()),
        (NODE, node_with(declared_features=("F",)), {"NodeDeclaredFeatures"}),
        (
            NODE,
            make_node("n", labels={"a": "b"}, allocatable={"cpu": "9"}),
            {
                *("NodeAffinity", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
                *("InterPodAffinity", "DynamicResources", "NodeResourcesFit"),
            },
        ),
        (POD, POD, {"NodeDeclaredFeatures"}),
        (POD, make_pod("p", annotations={"a": "b"}), {"NodeDeclaredFeatures"}),
        (
            POD,
            make_pod("p", labels={"a": "b"}),
            {"PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures"},
        ),
        (
            make_pod("p", requests={"cpu": "1"}),
            POD,
            {"NodeResourcesFit", "NodeDeclaredFeatures"},
        ),
        (
            POD,
            make_pod("p", tolerations=[{"operator": "Exists"}]),
            {"NodeUnschedulable", "TaintToleration", "PodTopologySpread", "NodeDeclaredFeatures"},
        ),
        (GATED, POD, {"SchedulingGates", "NodeDeclaredFeatures"}),
        (POD, CLAIMED, {"DynamicResources", "NodeDeclaredFeatures"}),
    ],
)
def test_an_update_reaches_the_plugins_that_it_is_for(
    old: core.Node | core.Pod, new: core.Node | core.Pod, reached: set[str]
) -> None:
    assert reached_by(*events_of(old, new)) == reached & IN_TREE.keys()


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        (ClusterEvent(R.NODE, A.ADD), ABOUT_NODES),
        (ClusterEvent(R.NODE, A.DELETE), {"PodTopologySpread"}),
        (EVENT_ASSIGNED_POD_ADD, {"PodTopologySpread", "InterPodAffinity", "GangScheduling"}),
        (
            EVENT_ASSIGNED_POD_DELETE,
            {
                *("NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits"),
                *("PodTopologySpread", "InterPodAffinity", "DefaultPreemption"),
            },
        ),
    ],
    ids=lambda value: value.label if isinstance(value, ClusterEvent) else "",
)
def test_added_and_deleted_objects_reach_the_registrations_too(
    event: ClusterEvent, reached: set[str]
) -> None:
    assert reached_by(event) == reached & IN_TREE.keys()


def reached_by(*events: ClusterEvent) -> set[str]:
    return {
        name
        for name in UPSTREAM.keys() & IN_TREE.keys()
        for registered, _ in cast("EnqueueExtensions", build(name)).events_to_register()
        if any(match_cluster_events(registered, event) for event in events)
    }
