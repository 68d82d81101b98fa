"""The events that stem from an update: upstream's `events_test.go` tables."""

from collections.abc import Sequence

import msgspec
import pytest

from scheduler.api import core
from scheduler.framework.events import ActionType, ClusterEvent, EventResource
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.testing import make_node, make_pod

A = ActionType


def _node(**changes: object) -> core.Node:
    return make_node("n", **changes)  # type: ignore[arg-type]


def _node_status(**changes: object) -> core.Node:
    node = _node()
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, **changes))


READY, NOT_READY = (core.NodeCondition("Ready", status) for status in ("True", "False"))
PRESSURE = core.NodeCondition("MemoryPressure", "False")
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
OTHER = {"key": "k", "effect": "NoExecute"}
LATER = {"timeAdded": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (_node(), _node(resource_version="2"), []),
        (_node(), _node(unschedulable=True), []),
        (_node(allocatable={"cpu": "1"}), _node(allocatable={"cpu": "1000m"}), []),
        (_node(taints=[TAINT]), _node(taints=[TAINT | LATER]), [A.UPDATE_NODE_TAINT]),
        (_node(taints=[TAINT, OTHER]), _node(taints=[OTHER, TAINT]), [A.UPDATE_NODE_TAINT]),
        (
            _node_status(conditions=(READY, PRESSURE)),
            _node_status(conditions=(PRESSURE, READY)),
            [],
        ),
        (
            _node_status(declared_features=("a", "b")),
            _node_status(declared_features=("b", "a")),
            [A.UPDATE_NODE_DECLARED_FEATURE],
        ),
        # Several things at once are several events, in this order.
        (
            _node(unschedulable=True),
            _node(
                allocatable={"cpu": "1"}, labels={"a": "b"}, taints=[TAINT], annotations={"a": "b"}
            ),
            [
                A.UPDATE_NODE_TAINT,
                A.UPDATE_NODE_ALLOCATABLE,
                A.UPDATE_NODE_LABEL,
                A.UPDATE_NODE_TAINT,
                A.UPDATE_NODE_ANNOTATION,
            ],
        ),
    ],
)
def test_a_nodes_update_is_one_event_for_each_thing_that_matters(
    old: core.Node, new: core.Node, actions: Sequence[ActionType]
) -> None:
    events = node_scheduling_properties_change(new, old)
    assert events == [ClusterEvent(EventResource.NODE, action) for action in actions]


def _pod(**changes: object) -> core.Pod:
    return make_pod("p", **changes)  # type: ignore[arg-type]


def _pod_status(**changes: object) -> core.Pod:
    return msgspec.structs.replace(_pod(), status=core.PodStatus(**changes))


SMALL, LARGE = {"cpu": "1"}, {"cpu": "2"}
CLAIM = core.PodResourceClaimStatus(name="c", resource_claim_name="x")
OTHER_CLAIM = core.PodResourceClaimStatus(name="d", resource_claim_name="y")
EXTENDED = core.PodExtendedResourceClaimStatus(resource_claim_name="x")
OTHER_EXTENDED = core.PodExtendedResourceClaimStatus(resource_claim_name="y")


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (_pod(), _pod(annotations={"a": "b"}), [A.UPDATE]),
        (
            _pod(requests={"memory": "1"}),
            _pod(requests={"memory": "999m"}),
            [A.UPDATE_POD_SCALE_DOWN],
        ),
        (_pod(requests={"memory": "1m"}), _pod(requests={"memory": "100u"}), [A.UPDATE]),
        (_pod(scheduling_gates=["g", "h"]), _pod(scheduling_gates=["h"]), [A.UPDATE]),
        (
            _pod_status(resource_claim_statuses=(CLAIM, OTHER_CLAIM)),
            _pod_status(resource_claim_statuses=(OTHER_CLAIM, CLAIM)),
            [A.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
        ),
        (
            _pod_status(extended_resource_claim_status=EXTENDED),
            _pod_status(extended_resource_claim_status=OTHER_EXTENDED),
            [A.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
        ),
        # Tolerations can only be added, not changed: their number is compared.
        (
            _pod(tolerations=[{"operator": "Exists"}]),
            _pod(tolerations=[{"key": "k", "operator": "Exists"}]),
            [A.UPDATE],
        ),
        # Several things at once are several events, in this order.
        (
            _pod(requests=LARGE, scheduling_gates=["g"]),
            msgspec.structs.replace(
                _pod(requests=SMALL, labels={"a": "b"}, tolerations=[{"operator": "Exists"}]),
                status=core.PodStatus(resource_claim_statuses=(CLAIM,)),
            ),
            [
                A.UPDATE_POD_LABEL,
                A.UPDATE_POD_SCALE_DOWN,
                A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                A.UPDATE_POD_TOLERATION,
                A.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            ],
        ),
    ],
)
@pytest.mark.parametrize("node_name", ["", "n"])
def test_an_update_of_a_pod_is_an_event_for_each_changed_property_or_a_plain_update(
    old: core.Pod, new: core.Pod, actions: Sequence[ActionType], node_name: str
) -> None:
    resource = EventResource.ASSIGNED_POD if node_name else EventResource.UNSCHEDULABLE_POD
    spec = msgspec.structs.replace(new.spec, node_name=node_name)
    events = pod_scheduling_properties_change(msgspec.structs.replace(new, spec=spec), old)
    assert events == [ClusterEvent(resource, action) for action in actions]


def test_a_pod_scaled_down_in_its_spec_is_so_only_once_the_kubelet_has_followed() -> None:
    def resized(spec: str, given: str) -> core.Pod:
        resources = core.ResourceRequirements(requests={"cpu": given})
        status = core.PodStatus(container_statuses=(core.ContainerStatus("c", resources),))
        return msgspec.structs.replace(_pod(requests={"cpu": spec}), status=status)

    [event] = pod_scheduling_properties_change(resized("1", "2"), resized("2", "2"))
    assert event.action_type == A.UPDATE
    [event] = pod_scheduling_properties_change(resized("1", "1"), resized("1", "2"))
    assert event.action_type == A.UPDATE_POD_SCALE_DOWN
