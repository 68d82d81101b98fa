"""The queue beyond the recorded states of upstream's own (`test_recorded.py`).

Wake-ups, the log, statistics, and pods that come back in other ways.
"""

import pytest

from scheduler.api.core import Pod
from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.klog import V5
from scheduler.queue import QueueStatistics
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    HIGH,
    LOW,
    MID,
    PV_ADD,
    LabelGate,
    World,
    queue,
    skip,
)

HIGH_POD = make_pod("hpp", namespace="ns1", priority=HIGH)
MID_POD = make_pod("mpp", namespace="ns2", priority=MID, nominated_node_name="node1")
LOW_POD = make_pod("up", namespace="ns1", priority=LOW, nominated_node_name="node1")


def changed(pod: Pod, **changes: str) -> Pod:
    """The pod with an annotation that plugins do not look at."""
    return make_pod(
        pod.metadata.name,
        namespace=pod.metadata.namespace,
        priority=pod.spec.priority,
        nominated_node_name=pod.status.nominated_node_name,
        annotations=changes or {"foo": "test"},
    )


# AddUnschedulableIfNotPresent.


def test_a_pod_can_be_given_back_after_it_was_done(caplog: pytest.LogCaptureFixture) -> None:
    """A binding that fails after `done` was called for the pod."""
    world = World()
    world.add(LOW_POD)
    info = world.pop()
    world.done(info.uid)
    world.give_back(info)
    assert world.places == {"backoff": ["up"]}
    assert not caplog.records


def test_a_copy_of_the_popped_pod_can_be_given_back() -> None:
    """The binding cycle works on a copy with the node filled in."""
    world = World()
    world.add(LOW_POD)
    world.give_back(world.pop().clone(), "plugin")
    assert world.places == {"unschedulable": ["up"]}
    world.queue.check()


def test_done_may_be_called_for_any_pod() -> None:
    world = World()
    world.done("nobody")
    world.add(LOW_POD)
    world.pop()
    world.done(LOW_POD.metadata.uid)
    world.done(LOW_POD.metadata.uid)
    assert world.places == {}


# Update.


def updated_world() -> World:
    hints = {
        DEFAULT_POD_EVENTS.event(ActionType.UPDATE): [("queuePlugin", queue), ("skipPlugin", skip)]
    }
    return World(hints)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rejector", "after_seconds", "place"),
    [
        pytest.param("queuePlugin", 0, "backoff", id="its backoff is not over"),
        pytest.param("queuePlugin", 10, "active", id="its backoff is over"),
        pytest.param("skipPlugin", 10, "unschedulable", id="the hint says that it does not help"),
    ],
)
def test_a_change_of_a_waiting_pod_is_an_event_for_it(
    rejector: str, after_seconds: float, place: str
) -> None:
    """TestPriorityQueue_Update, "when updating a pod in unschedulablePods..."."""
    world = updated_world()
    world.try_in_vain(MID_POD, rejector)
    world.now += after_seconds
    ready = world.ready
    new = changed(MID_POD)
    world.update(MID_POD, new)
    assert world.places == {place: ["mpp"]}
    info = world.find("mpp", "ns2")
    assert info.pod_info.pod is new
    assert world.ready == ready + (place != "unschedulable")
    world.queue.check()


def test_the_first_change_that_helps_moves_a_pod_and_ends_the_asking() -> None:
    asked: list[str] = []
    events = [
        ClusterEvent(EventResource.POD, action)
        for action in (ActionType.UPDATE_POD_LABEL, ActionType.UPDATE_POD_TOLERATION)
    ]
    world = World({
        event: [("plugin", lambda pod, old, new: queue(asked.append(pod.name), old, new))]  # type: ignore[arg-type, func-returns-value]
        for event in events
    })  # fmt: skip
    world.try_in_vain(make_pod("p"), "plugin")
    world.update(make_pod("p"), make_pod("p", labels={"a": "b"}, tolerations=[{"key": "k"}]))
    assert asked == ["p"]
    assert world.queue.incoming_pods["backoff", "UnschedulablePodUpdatePodLabel"] == 1


# Activate.


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_waiting_pod_can_be_activated(place: str) -> None:
    """TestPriorityQueue_Activate."""
    world = World()
    if place == "active":
        world.add(MID_POD)
    else:
        world.try_in_vain(MID_POD, *(["plugin"] if place == "unschedulable" else []))
    ready = world.ready
    world.activate(MID_POD)
    assert world.places == {"active": ["mpp"]}
    assert world.ready == ready + (place != "active")
    world.queue.check()


def test_each_of_several_activated_pods_in_flight_comes_back() -> None:
    world = World()
    world.add(MID_POD, LOW_POD)
    infos = [world.pop(), world.pop()]
    world.take(world.queue.activate({i.key: i.pod_info for i in infos}, world.now))
    for info in infos:
        world.give_back(info, "plugin")
    assert world.places == {"backoff": ["mpp", "up"]}


def test_activating_a_gated_pod_asks_its_gate() -> None:
    gate = LabelGate()
    world = World(gates=[gate])
    pod = make_pod("p", labels={"p": ""})
    world.add(pod)
    world.activate(pod)
    assert (world.place_of(pod), world.ready) == ("gated", 0)
    gate.allowed = ("p",)
    world.activate(pod)
    assert (world.place_of(pod), world.ready) == ("active", 1)


# Nominations.


def test_an_override_in_memory_survives_updates_that_name_no_node() -> None:
    world = World()
    world.try_in_vain(HIGH_POD, "plugin")
    info = world.find("hpp", "ns1")
    world.queue.nominator.add_nominated_pod(
        info.pod_info, NominatingInfo("node7", NominatingMode.OVERRIDE)
    )
    newer = changed(HIGH_POD)
    world.update(HIGH_POD, newer)
    assert [pod.pod for pod in world.queue.nominator.nominated_pods_for_node("node7")] == [newer]
    world.queue.check()
    world.queue.nominator.delete_nominated_pod_if_exists(PodInfo(newer))
    assert world.queue.nominator.nominated_pods_for_node("node7") == []


def test_a_nominated_pod_is_known_in_the_version_that_waits() -> None:
    world = World()
    world.add(MID_POD)
    info = world.pop()
    info.pod_info = PodInfo(changed(MID_POD))
    world.give_back(info, "plugin")
    assert world.queue.nominator.nominated_pods_for_node("node1") == [info.pod_info]
    world.queue.check()


def test_a_nominated_pod_that_is_popped_and_skipped_holds_no_room() -> None:
    world = World()
    pod = make_pod("p", priority=HIGH, requests={"cpu": "1"}, nominated_node_name="node1")
    world.add(pod)
    world.done(world.pop().uid)
    (nominated,) = world.queue.nominator.nominated_pods_for_node("node1")
    assert (nominated.key, nominated.priority, nominated.requests["cpu"]) == ("default/p", 0, 0)
    world.update(pod, changed(pod))
    assert [pod.priority for pod in world.queue.nominator.nominated_pods_for_node("node1")] == [
        HIGH
    ]
    world.queue.check()


def test_a_pod_that_was_nominated_before_it_is_added_is_known_as_it_was_added() -> None:
    gate = LabelGate()
    world = World(gates=[gate])
    nominating = NominatingInfo("node7", NominatingMode.OVERRIDE)
    world.queue.nominator.add_nominated_pod(PodInfo(HIGH_POD), nominating)
    world.add(HIGH_POD)
    info = world.find("hpp", "ns1")
    assert world.queue.nominator.nominated_pods_for_node("node7") == [info.pod_info]
    world.queue.check()


# Looking in.


def test_pending_pods_are_all_waiting_pods_with_upstreams_summary() -> None:
    """TestPriorityQueue_PendingPods."""
    world = World()
    world.try_in_vain(LOW_POD, "plugin")
    world.try_in_vain(HIGH_POD, "plugin")
    world.add(MID_POD)
    pods, summary = world.queue.pending_pods()
    assert pods == [MID_POD, LOW_POD, HIGH_POD]
    assert summary == "activeQ:1; backoffQ:0; unschedulablePods:2"
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    pods, summary = world.queue.pending_pods()
    assert pods == [MID_POD, HIGH_POD, LOW_POD]
    assert summary == "activeQ:1; backoffQ:2; unschedulablePods:0"


def test_the_sizes_of_all_pools_at_once() -> None:
    world = World({PV_ADD: [("plugin", queue)]}, gates=[LabelGate("p")])
    pods = [make_pod(f"p{n}", labels={"p": ""}) for n in range(5)]
    world.try_in_vain(pods[0])
    world.try_in_vain(pods[1], "plugin")
    world.add(pods[2])
    world.pop()
    world.event(PV_ADD)
    world.try_in_vain(pods[3], "other")
    world.add(pods[4], make_pod("gated"))
    assert world.queue.statistics() == QueueStatistics(
        active=1,
        backoff=2,
        unschedulable=1,
        gated=1,
        in_flight_pods=1,
        in_flight_events=1,
    )
    world.queue.check()


def test_each_move_is_logged_at_level_5(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(V5):
        World().add(LOW_POD)
    (record,) = caplog.records
    assert record.getMessage() == "Pod moved to an internal scheduling queue"
    assert record.args == {"pod": "ns1/up", "event": "UnschedulablePodAdd", "queue": "active"}
