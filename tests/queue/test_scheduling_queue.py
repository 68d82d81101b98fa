"""Pods are added, popped, changed and deleted. Cases are of `scheduling_queue_test.go`."""

import pytest

from scheduler.api.core import Pod
from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.klog import V5
from scheduler.queue import Place, PodAlreadyQueuedError, QueueStatistics
from scheduler.queue.active_queue import InFlightEvent
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.pools import pods_of
from tests.queue.world import (
    HIGH,
    LOW,
    MID,
    NODE_ADD,
    PV_ADD,
    START,
    LabelGate,
    World,
    queue,
    skip,
    waiting,
)

HIGH_POD = make_pod("hpp", namespace="ns1", priority=HIGH)
HIGH_NOMINATED = make_pod("hpp", namespace="ns1", priority=HIGH, nominated_node_name="node1")
MID_POD = make_pod("mpp", namespace="ns2", priority=MID, nominated_node_name="node1")
LOW_POD = make_pod("up", namespace="ns1", priority=LOW, nominated_node_name="node1")

TOLERATION_ADDED = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)


def changed(pod: Pod, **changes: str) -> Pod:
    """The pod with an annotation that plugins do not look at."""
    return make_pod(
        pod.metadata.name,
        namespace=pod.metadata.namespace,
        priority=pod.spec.priority,
        nominated_node_name=pod.status.nominated_node_name,
        annotations=changes or {"foo": "test"},
    )


# Add and Pop.


def test_pods_are_popped_by_priority_and_stay_nominated() -> None:
    """TestPriorityQueue_Add, TestPriorityQueue_NominatedPodsForNode."""
    world = World(listed=[MID_POD, LOW_POD, HIGH_POD])
    world.add(MID_POD, LOW_POD, HIGH_POD)
    nominations = {MID_POD.metadata.uid: "node1", LOW_POD.metadata.uid: "node1"}
    assert world.queue.nominator.nominations == nominations
    assert world.pop_names() == ["hpp", "mpp", "up"]
    assert world.queue.nominator.nominations == nominations
    assert [pod.name for pod in world.queue.nominator.nominated_pods_for_node("node1")] == [
        "mpp",
        "up",
    ]


def test_of_equal_priority_the_one_that_waits_longest_is_popped_first() -> None:
    world = World()
    for name in ("second", "first"):
        world.now -= 1
        world.add(make_pod(name, priority=MID))
    assert world.pop_names() == ["first", "second"]


def test_an_empty_queue_pops_nothing() -> None:
    assert World().pop_nowait() is None


def test_rejected_pods_are_popped_from_backoff_when_none_is_active() -> None:
    """TestPriorityQueue_Pop: but neither those that met an error, nor unschedulable ones."""
    world = World()
    world.try_in_vain(make_pod("error", priority=HIGH))
    world.try_in_vain(make_pod("rejected", priority=HIGH), "plugin")
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    world.try_in_vain(make_pod("unschedulable", priority=2 * HIGH), "plugin")
    world.add(make_pod("active", priority=LOW))
    world.queue.check()
    assert world.pop_names() == ["active", "rejected"]
    assert world.queue.incoming_pods["active", "PopFromBackoffQ"] == 1


def test_the_pod_whose_backoff_ends_first_is_popped_first_by_priority_within_a_second() -> None:
    world = World({NODE_ADD: [("plugin", queue)]})
    for name, priority, came in (("low", 1, 0.0), ("high", 2, 0.5), ("later", 9, 1.0)):
        world.now = START + came
        world.try_in_vain(make_pod(name, priority=priority), "plugin")
    world.event(NODE_ADD)
    assert world.pop_names() == ["high", "low", "later"]


@pytest.mark.parametrize(
    ("name", "popped"),
    [
        ("active", True),
        ("backoff", True),
        ("unschedulable", True),
        ("gated", False),
        ("gated for a while", True),
        ("unknown", False),
    ],
)
def test_a_specific_pod_can_be_popped_from_any_queue(name: str, popped: bool) -> None:
    """TestPriorityQueue_PopSpecificPod."""
    gate = LabelGate("foo")
    world = World(gates=[gate])
    names = ("backoff", "unschedulable", "active")
    pods = {n: make_pod(n, labels={"foo": ""}) for n in (*names, "unknown")}
    pods["gated"] = make_pod("gated")
    pods["gated for a while"] = make_pod("gated for a while", labels={"bar": ""})
    world.try_in_vain(pods["backoff"])
    world.try_in_vain(pods["unschedulable"], "plugin")
    world.add(pods["active"], pods["gated"], pods["gated for a while"])
    gate.allowed = ("foo", "bar")
    info = world.pop_specific_pod(pods[name])
    assert (info is not None) is popped
    assert (pods[name] in world.queue.in_flight_pods()) is popped
    waits = not popped and name != "unknown"
    assert (world.queue.find(f"default/{name}") is not None) is waits
    world.queue.check()


# AddUnschedulableIfNotPresent.


def test_a_pod_that_was_turned_down_waits_for_an_event() -> None:
    """TestPriorityQueue_AddUnschedulableIfNotPresent."""
    world = World()
    info = world.try_in_vain(LOW_POD, "plugin")
    assert world.places == {"unschedulable": ["up"]}
    assert (info.unschedulable_count, info.consecutive_errors_count) == (1, 0)
    world.queue.check()


def test_a_pod_that_met_an_error_backs_off() -> None:
    world = World()
    info = world.try_in_vain(LOW_POD)
    assert world.places == {"backoff": ["up"]}
    assert (info.unschedulable_count, info.consecutive_errors_count) == (0, 1)
    assert info.backoff_expiration == START + 1
    assert world.ready == 2
    world.queue.check()


def test_a_verdict_ends_a_row_of_errors() -> None:
    world = World()
    info = world.try_in_vain(LOW_POD)
    for _ in range(2):
        world.now += 20
        world.flush_backoff()
        world.give_back(world.pop())
    assert info.consecutive_errors_count == 3
    world.now += 20
    world.flush_backoff()
    world.give_back(world.pop(), "plugin")
    assert (info.unschedulable_count, info.consecutive_errors_count) == (1, 0)


def test_a_pod_that_comes_back_has_a_new_timestamp() -> None:
    world = World()
    world.add(LOW_POD)
    info = world.pop()
    info.was_flushed_from_unschedulable = True
    info.backoff_expiration = START
    world.now += 7
    world.give_back(info, "plugin")
    assert info.timestamp == START + 7
    assert info.backoff_expiration == 0
    assert not info.was_flushed_from_unschedulable


def test_pods_in_flight_during_a_move_back_off_when_they_come_back() -> None:
    """TestPriorityQueue_AddUnschedulableIfNotPresent_Backoff."""
    world = World()
    world.add(*(make_pod(f"pod{n}", priority=n) for n in range(10)))
    popped = [world.pop() for _ in range(9)]
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    assert world.pop().pod_info.name == "pod0"
    for info in popped:
        world.give_back(info, "plugin")
    assert world.places["backoff"] == [f"pod{n}" for n in range(9, 0, -1)]
    world.queue.check()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("unschedulable", "Pod ns1/up is already present in unschedulable queue"),
        ("active", "Pod ns1/up is already present in the active queue"),
        ("backoff", "Pod ns1/up is already present in the backoff queue"),
    ],
)
def test_a_pod_that_waits_already_cannot_be_given_back(place: str, message: str) -> None:
    world = World()
    recreated = make_pod("up", namespace="ns1", uid="recreated")
    world.add(LOW_POD)
    info = world.pop()
    if place == "active":
        world.add(recreated)
    else:
        world.try_in_vain(recreated, *(["plugin"] if place == "unschedulable" else []))
    with pytest.raises(PodAlreadyQueuedError, match=message):
        world.give_back(info, "plugin")
    assert world.places == {place: ["up"]}
    world.queue.check()


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


def test_an_unknown_pod_that_changes_becomes_active() -> None:
    """TestPriorityQueue_Update, "Update pod that didn't exist in the queue"."""
    world = updated_world()
    world.update(MID_POD, changed(MID_POD))
    assert world.places == {"active": ["mpp"]}
    assert world.ready == 1
    assert world.queue.incoming_pods == {("active", "UnschedulablePodUpdate"): 1}


def test_a_change_may_nominate_a_pod() -> None:
    """TestPriorityQueue_Update, "...add a nominatedNodeName to it"."""
    world = updated_world()
    world.add(HIGH_POD)
    world.update(HIGH_POD, HIGH_NOMINATED)
    assert world.queue.nominator.nominations == {HIGH_POD.metadata.uid: "node1"}
    world.queue.check()


def test_active_and_backing_off_pods_are_replaced_where_they_are() -> None:
    """TestPriorityQueue_Update, "...already in activeQ...", "...is in backoff queue..."."""
    world = updated_world()
    world.try_in_vain(MID_POD)
    world.add(HIGH_POD)
    newer = [changed(MID_POD), changed(HIGH_POD)]
    for old, new in zip((MID_POD, HIGH_POD), newer, strict=True):
        world.update(old, new)
    assert pods_of(world.queue.backoff_q.in_order()) == newer[:1]
    assert pods_of(world.queue.active_q.in_order()) == newer[1:]
    world.queue.check()


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


def test_a_change_of_a_pod_in_flight_is_kept_until_it_comes_back() -> None:
    """TestPriorityQueue_UpdateWhenInflight, and "...which is in flightPods"."""
    world = World({TOLERATION_ADDED: [("plugin", queue)]})
    world.add(MID_POD)
    info = world.pop()
    tolerant = make_pod("mpp", namespace="ns2", tolerations=[{"key": "foo"}])
    world.update(MID_POD, tolerant)
    assert world.places == {"in flight": ["mpp"]}
    info.pod_info = PodInfo(tolerant)
    world.give_back(info, "plugin")
    assert pods_of(world.queue.backoff_q.in_order()) == [tolerant]
    world.queue.check()


# Delete.


def test_a_deleted_pod_is_nowhere() -> None:
    """TestPriorityQueue_Delete."""
    world = World(listed=[HIGH_POD, LOW_POD])
    world.update(HIGH_POD, HIGH_NOMINATED)
    world.add(LOW_POD)
    world.delete(HIGH_NOMINATED)
    assert world.places == {"active": ["up"]}
    assert world.queue.nominator.nominations == {LOW_POD.metadata.uid: "node1"}
    world.delete(LOW_POD)
    assert world.places == {}
    assert world.queue.nominator.nominations == {}
    world.delete(LOW_POD)
    world.queue.check()


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_pod_can_be_deleted_from_any_queue(place: str) -> None:
    gate = LabelGate(*([] if place == "gated" else ["p"]))
    world = World(gates=[gate])
    pod = make_pod("p", labels={"p": ""})
    if place in ("backoff", "unschedulable"):
        world.try_in_vain(pod, *(["plugin"] if place == "unschedulable" else []))
    else:
        world.add(pod)
    assert world.place_of(pod) == place
    world.delete(pod)
    assert world.places == {}
    assert world.pop_names() == []
    world.queue.check()


def test_a_deleted_pod_in_flight_stays_so_until_it_is_done() -> None:
    world = World(listed=[MID_POD])
    world.add(MID_POD)
    world.pop()
    world.delete(MID_POD)
    assert world.places == {"in flight": ["mpp"]}
    assert world.queue.nominator.nominations == {}
    world.done(MID_POD.metadata.uid)
    assert world.places == {}


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


def test_activating_a_pod_in_flight_brings_it_back_after_its_attempt() -> None:
    """TestPriorityQueue_Activate, "...but in-flight": the event names the pod, and only that."""
    world = World()
    world.add(MID_POD, LOW_POD)
    infos = [world.pop(), world.pop()]
    world.activate(MID_POD)
    event = world.queue.in_flight.entries()[-1]
    assert event == InFlightEvent(EVENT_FORCE_ACTIVATE, None, MID_POD)
    for info in infos:
        world.give_back(info, "plugin")
    assert world.places == {"backoff": ["mpp"], "unschedulable": ["up"]}
    world.queue.check()


def test_each_of_several_activated_pods_in_flight_comes_back() -> None:
    world = World()
    world.add(MID_POD, LOW_POD)
    infos = [world.pop(), world.pop()]
    world.take(world.queue.activate({i.key: i.pod_info for i in infos}, world.now))
    for info in infos:
        world.give_back(info, "plugin")
    assert world.places == {"backoff": ["mpp", "up"]}


def test_activating_an_unknown_pod_does_nothing() -> None:
    world = World()
    world.add(MID_POD)
    world.pop()
    world.activate(HIGH_POD)
    assert world.places == {"in flight": ["mpp"]}
    assert world.queue.statistics().in_flight_events == 0


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


def test_a_waiting_pod_is_found_by_namespace_and_name() -> None:
    """TestPriorityQueue_GetPod."""
    world = World()
    for pod, place in (("pod1", Place.ACTIVE), ("pod2", Place.BACKOFF), ("pod3", "")):
        info = waiting(make_pod(pod), *([] if place else ["plugin"]))
        if place == Place.ACTIVE:
            world.queue.active_q.add(info)
        elif place == Place.BACKOFF:
            world.queue.backoff_q.add(info)
        else:
            world.queue.unschedulable_pods.add(info)
        assert world.queue.find(f"default/{pod}") is info
    assert world.queue.find("default/pod4") is None
    assert world.queue.find("other/pod1") is None


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


# Attempts and their times.


@pytest.mark.parametrize("updated", [False, True])
def test_attempts_are_counted_from_the_first_time_active(updated: bool) -> None:
    """TestPerPodSchedulingMetrics."""
    world = World()
    pod = make_pod("p")
    world.try_in_vain(pod, "plugin")
    world.now += 301
    world.flush_leftover()
    if updated:
        world.update(pod, changed(pod))
    info = world.pop()
    assert info.attempts == 2
    assert info.initial_attempt_timestamp == START


def test_a_gated_pods_first_attempt_counts_from_when_its_gate_opened() -> None:
    """TestPerPodSchedulingMetrics, "A gated pod is created and scheduled after lifting gate"."""
    label = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
    world = World({label: [("preEnqueuePlugin", queue)]}, gates=[LabelGate("foo")])
    world.add(make_pod("p"))
    world.now += 60
    world.update(make_pod("p"), make_pod("p", labels={"foo": ""}))
    info = world.pop()
    assert info.attempts == 1
    assert info.initial_attempt_timestamp == START + 60
